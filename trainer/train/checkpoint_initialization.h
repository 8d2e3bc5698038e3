// A run that starts from the weights of a checkpoint, with a fresh optimiser.
#ifndef LORSA_TRAINER_TRAIN_CHECKPOINT_INITIALIZATION_H_
#define LORSA_TRAINER_TRAIN_CHECKPOINT_INITIALIZATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "trainer/config/checkpoint_config.h"
#include "trainer/config/train_config.h"
#include "trainer/lorsa/lorsa_parameters.h"
#include "trainer/train/run_host.h"

namespace lorsa::trainer {

// Gives `config` these scales and changes `parameters`, in place, so that
// ŷ = Lorsa(x · input_scale) / output_scale stays what it is. With both 1 they are folded into the
// weights. Throws c10::Error.
void Rescale(double input_scale, double output_scale, CheckpointConfig& config,
             LorsaParameters& parameters);

// The published weights of the checkpoint in `folder`, which is fetched and verified, rescaled to
// the set of `config`. FAILED_PRECONDITION if `folder` is empty or the weights are not of the Lorsa
// that `config` describes (only which heads are kept may differ: top_k, selection,
// select_by_decoder_norm); else as FetchCheckpoint and ReadCheckpointWeights.
absl::StatusOr<LorsaParameters> InitializeFromCheckpoint(const TrainConfig& config, RunHost& host,
                                                         const std::string& folder,
                                                         at::Device device);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_CHECKPOINT_INITIALIZATION_H_

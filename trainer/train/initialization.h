// The weights with which a run starts.
#ifndef LORSA_TRAINER_TRAIN_INITIALIZATION_H_
#define LORSA_TRAINER_TRAIN_INITIALIZATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "trainer/config/train_config.h"
#include "trainer/lorsa/lorsa_kernel.h"
#include "trainer/lorsa/lorsa_parameters.h"
#include "trainer/train/run_host.h"

namespace lorsa::trainer {

// A pure function of the configuration (with its seed), the first training sequences of the run's
// order and the layer's weights. b_D is the mean target. In the end all of W_O is multiplied by one
// factor, the one with which the reconstruction fits best:
// s = ⟨y−b_D, r⟩ / ‖r‖², r = ŷ−b_D, but at least such that r has a tenth of the size of y−b_D.
// With Initialization::kCheckpoint the weights are those of the folder `initial_checkpoint` and
// give the same reconstruction (checkpoint_initialization.h); it is not used otherwise.
//
// FAILED_PRECONDITION if the initialisation needs weights that the set has not or the sequences
// have no two targets, INVALID_ARGUMENT if the shapes do not fit the layer's; else errors of the
// host and of InitializeFromCheckpoint. Throws c10::Error.
absl::StatusOr<LorsaParameters> InitializeParameters(const TrainConfig& config, RunHost& host,
                                                     const std::string& initial_checkpoint,
                                                     LorsaKernel& kernel, at::Device device);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_INITIALIZATION_H_

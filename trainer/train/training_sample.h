// A sample of the training sequences, for what looks at the data outside of a step.
#ifndef LORSA_TRAINER_TRAIN_TRAINING_SAMPLE_H_
#define LORSA_TRAINER_TRAIN_TRAINING_SAMPLE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/train/batch_reader.h"

namespace lorsa::trainer {

// Batches of at most sequences_per_step sequences, each with a target.
using TrainingSample = std::vector<LoadedBatch>;

// About `positions` positions, whole sequences from `cursor` of the run's order on: at least one
// sequence, at most one pass over the training sequences and 256 MiB of inputs.
// FAILED_PRECONDITION if there are fewer than two targets; else the source's error. Throws
// c10::Error.
absl::StatusOr<TrainingSample> ReadTrainingSample(const TrainConfig& config, RunHost& host,
                                                  int64_t cursor, int64_t positions,
                                                  at::Device device);

// Rows of `tensor` [B, S, …] at unmasked positions: [N, …].
at::Tensor TargetRows(const at::Tensor& tensor, const at::Tensor& mask_BS);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_TRAINING_SAMPLE_H_

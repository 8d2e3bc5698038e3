// One training run from its first step, or from a checkpoint, to its end.
#ifndef LORSA_TRAINER_TRAIN_TRAINING_RUN_H_
#define LORSA_TRAINER_TRAIN_TRAINING_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "trainer/config/train_config.h"
#include "trainer/train/run_host.h"

namespace lorsa::trainer {

class LorsaKernel;  // Its header is torch's.

// How a run that met no error ended.
struct RunOutcome {
  enum class Kind { kSucceeded, kPaused, kCancelled, kDrained };
  Kind kind = Kind::kSucceeded;
  int64_t step = 0;    // steps done
  int64_t tokens = 0;  // positions consumed
  // For people, one sentence; says so when a full disk kept the run from making its last
  // checkpoint before it paused or drained, and when the refit at the end was rejected.
  std::string message;
  // Of this run since it began or was resumed, and what the first steps made expect; 0 if it took
  // too few of them.
  absl::Duration took;
  absl::Duration expected;
};

// Gives the kernel with which a run computes, around the one that it would have used.
using KernelDecorator = std::function<std::unique_ptr<LorsaKernel>(std::unique_ptr<LorsaKernel>)>;

struct RunOptions {
  // Empty: none.
  KernelDecorator decorate;
  // Of the checkpoint of another run that this one goes on from; 0 = it begins with new weights.
  int64_t first_step = 0;
  // Folder of the checkpoint whose weights Initialization::kCheckpoint starts with.
  std::string initial_checkpoint;
};

// Trains until the run's tokens are consumed or a stop is requested. Resumes from the first of
// `checkpoint_folders` (newest first) that verifies and warns about the others; without any, it
// initialises the weights, evaluates them and publishes a checkpoint of step 0, unless it is to go
// on from another run's.
//
// A run killed at any moment and resumed publishes the same lorsa.safetensors, state.safetensors
// and config.json, bit for bit, as one that was not (on a CPU with the same instruction set,
// threads, ranks and build).
//
// Sets libtorch's thread count and deterministic mode, which are the process's: one run at a time.
// Errors:
//   INVALID_ARGUMENT     the configuration is impossible; names the field
//   FAILED_PRECONDITION  the initialisation needs attention weights that the set has not or other
//                        weights than the initial checkpoint's, or a checkpoint that verifies is of
//                        another configuration
//   DATA_LOSS            an activation or a weight is damaged or not finite; names the sequences.
//                        Or the list of rollbacks or the initial checkpoint is damaged, or the
//                        checkpoint of first_step and all after it are
//   ABORTED              loss, gradient or weight is not finite though the data are, and the run
//                        has gone back as often as it may; names step, tensor and sequences
//   RESOURCE_EXHAUSTED   libtorch got no memory
//   others               what the host returned
absl::StatusOr<RunOutcome> RunTraining(const TrainConfig& config, RunHost& host,
                                       absl::Span<const std::string> checkpoint_folders,
                                       const RunOptions& options = {});

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_TRAINING_RUN_H_

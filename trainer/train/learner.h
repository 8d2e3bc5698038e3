// One optimiser step: from a batch to new weights.
#ifndef LORSA_TRAINER_TRAIN_LEARNER_H_
#define LORSA_TRAINER_TRAIN_LEARNER_H_

#include "absl/status/statusor.h"
#include "trainer/lorsa/lorsa_kernel.h"
#include "trainer/train/batch_reader.h"
#include "trainer/train/train_config.h"
#include "trainer/train/training_state.h"

namespace lorsa::trainer {

// What a step did, besides changing the weights.
struct StepReport {
  double loss = 0;
  double l0 = 0;  // active heads per target
  double gradient_norm = 0;
  double learning_rate = 0;
};

// One thread. `config` and `kernel` outlive it. Throws c10::Error.
class Learner {
 public:
  Learner(const TrainConfig& config, LorsaKernel& kernel) : config_(config), kernel_(kernel) {}

  // Takes step number state.counts.step on a batch with targets: weights, moments and head counters
  // change, counts do not. ABORTED, naming step, tensor and sequences, if the loss or a gradient is
  // not finite; `state` is then as it was.
  absl::StatusOr<StepReport> Step(const LoadedBatch& loaded, TrainingState& state);

 private:
  const TrainConfig& config_;
  LorsaKernel& kernel_;
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_LEARNER_H_

// One optimiser step: from a batch to new weights.
#ifndef LORSA_TRAINER_TRAIN_LEARNER_H_
#define LORSA_TRAINER_TRAIN_LEARNER_H_

#include "absl/status/statusor.h"
#include "trainer/config/train_config.h"
#include "trainer/lorsa/lorsa_kernel.h"
#include "trainer/train/adam.h"
#include "trainer/train/batch_reader.h"
#include "trainer/train/training_state.h"

namespace lorsa::trainer {

// What a step did, besides changing the weights.
struct StepReport {
  double loss = 0;
  double l0 = 0;        // active heads per target
  double aux_loss = 0;  // AuxK's, without its coefficient; 0 if it is off or no head is dead
  int64_t top_k = 0;
  double dead_fraction = 0;     // of the heads, before the step
  int64_t resampled_heads = 0;  // just before the step
  double gradient_norm = 0;
  double learning_rate = 0;  // before the factors of the groups; rollbacks counted
  LearningRates learning_rates;
  double update_ratio = 0;  // ‖what the optimiser added‖ / ‖weights after it‖, see AdamReport
  double fvu = 0;           // of the batch; NaN if its targets are all equal
  double dense_fraction = 0;
  double activation_mean = 0;  // of |z| over active heads
  double activation_max = 0;
};

// One thread. `config` and `kernel` outlive it. Throws c10::Error.
class Learner {
 public:
  Learner(const TrainConfig& config, LorsaKernel& kernel) : config_(config), kernel_(kernel) {}

  // Takes step number state.counts.step on a batch with targets: weights, their average, moments
  // and head counters change, counts do not. A NotFiniteError, naming step, tensor and sequences,
  // if the loss, a gradient or a new weight is not finite; `state` is then of no more use.
  absl::StatusOr<StepReport> Step(const LoadedBatch& loaded, TrainingState& state);

 private:
  absl::Status Apply(const LoadedBatch& loaded, const StepResult& step, StepReport& report,
                     TrainingState& state) const;

  const TrainConfig& config_;
  LorsaKernel& kernel_;
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_LEARNER_H_

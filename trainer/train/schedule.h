// Warm-up, stable, decay: the learning rate as a pure function of the step.
#ifndef LORSA_TRAINER_TRAIN_SCHEDULE_H_
#define LORSA_TRAINER_TRAIN_SCHEDULE_H_

#include <cstdint>

#include "trainer/train/train_config.h"

namespace lorsa::trainer {

// Learning rate of step 0 ≤ `step` < config.total_steps(), before the factor of the QK circuit.
// With n steps, w = max(1, ⌊warmup_fraction·n⌋) and c = max(1, ⌊decay_fraction·n⌋): it rises as
// (step+1)/w, stays at the peak, and in the last c steps falls as (n−step)/c, but not below
// final_learning_rate_factor.
double LearningRate(const TrainConfig& config, int64_t step);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_SCHEDULE_H_

// Learning rate and K as pure functions of the step.
#ifndef LORSA_TRAINER_TRAIN_SCHEDULE_H_
#define LORSA_TRAINER_TRAIN_SCHEDULE_H_

#include <cstdint>

#include "trainer/config/train_config.h"

namespace lorsa::trainer {

// Learning rate of step 0 ≤ `step` < config.total_steps(), before the factors of the groups.
// With n steps, w = max(1, ⌊warmup_fraction·n⌋) and c = max(1, ⌊decay_fraction·n⌋), it rises as
// (step+1)/w to the peak in every schedule. Then, not below final_learning_rate_factor:
//   kWarmupStableDecay  stays, and falls as (n−step)/c in the last c steps
//   kCosine             (1 + cos(π·(step−w+1)/(n−w+1)))/2 from step w on
//   kConstant           stays
double LearningRate(const TrainConfig& config, int64_t step);

// K of step `step`: with n steps, w = max(1, ⌊top_k_warmup_fraction·n⌋), p = step/w and K0 =
// initial_top_k, K0 + (K−K0)·p (linear) or K0·(K/K0)^p (exponential), rounded; K from p = 1 on and
// when the warm-up is off.
int64_t TopK(const TrainConfig& config, int64_t step);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_SCHEDULE_H_

// The moving average of the weights over the steps (EMA), which is what a run publishes when it
// keeps one.
#ifndef LORSA_TRAINER_TRAIN_WEIGHT_AVERAGE_H_
#define LORSA_TRAINER_TRAIN_WEIGHT_AVERAGE_H_

#include <cstdint>

#include "trainer/config/train_config.h"
#include "trainer/lorsa/lorsa_parameters.h"

namespace lorsa::trainer {

// New tensors with the same values.
LorsaParameters CloneParameters(const LorsaConfig& config, const LorsaParameters& parameters);

// Takes the weights after optimiser step number `steps`, from 1, into `average` in place. With β =
// exp(−1 / (ema_fraction · total steps)) it is the bias-corrected average Σ_s β^(n−s) w_s / Σ_s
// β^(n−s) over the steps s = 1 … n: weights before the first step have no part in it. An average of
// rows of W_O is shorter than the rows; with a decoder_norm the learner therefore moves the norm
// that is missing to W_V after each step, and the sum above is only near to the result.
void UpdateAverage(const TrainConfig& config, int64_t steps, const LorsaParameters& parameters,
                   LorsaParameters& average);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_WEIGHT_AVERAGE_H_

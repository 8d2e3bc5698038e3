#include "trainer/train/weight_average.h"

#include <ATen/ATen.h>

#include <cmath>

namespace lorsa::trainer {

LorsaParameters CloneParameters(const LorsaConfig& config, const LorsaParameters& parameters) {
  LorsaParameters out;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    out.*spec.member = (parameters.*spec.member).clone();
  }
  return out;
}

void UpdateAverage(const TrainConfig& config, int64_t steps, const LorsaParameters& parameters,
                   LorsaParameters& average) {
  // a_n = a_(n−1) + (w_n − a_(n−1))·(1−β)/(1−βⁿ) is the corrected average itself.
  const double log_decay = -1 / (config.ema_fraction * static_cast<double>(config.total_steps()));
  const double weight = std::expm1(log_decay) / std::expm1(log_decay * static_cast<double>(steps));
  for (const ParameterSpec& spec : ParameterSpecs(config.lorsa)) {
    (average.*spec.member).lerp_(parameters.*spec.member, weight);
  }
}

}  // namespace lorsa::trainer

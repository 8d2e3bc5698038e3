#include "trainer/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lorsa::trainer {
namespace {

int64_t Share(double fraction, int64_t steps) {
  return std::max<int64_t>(1, static_cast<int64_t>(fraction * static_cast<double>(steps)));
}

// Of the peak, once the warm-up is over.
double Fall(const TrainConfig& config, int64_t step) {
  const int64_t steps = config.total_steps();
  switch (config.schedule) {
    case LearningRateSchedule::kWarmupStableDecay:
      return static_cast<double>(steps - step) /
             static_cast<double>(Share(config.decay_fraction, steps));
    case LearningRateSchedule::kCosine: {
      const int64_t warm = Share(config.warmup_fraction, steps);
      if (step < warm) return 1;
      const double passed = static_cast<double>(step - warm + 1);
      return (1 + std::cos(std::numbers::pi * passed / static_cast<double>(steps - warm + 1))) / 2;
    }
    case LearningRateSchedule::kConstant:
      break;
  }
  return 1;
}

}  // namespace

double LearningRate(const TrainConfig& config, int64_t step) {
  const double warm = static_cast<double>(Share(config.warmup_fraction, config.total_steps()));
  const double rise = std::min(1.0, static_cast<double>(step + 1) / warm);
  const double fall = std::clamp(Fall(config, step), config.final_learning_rate_factor, 1.0);
  return config.learning_rate * rise * fall;
}

int64_t TopK(const TrainConfig& config, int64_t step) {
  const int64_t final_k = config.lorsa.top_k;
  if (config.top_k_warmup_fraction == 0) return final_k;
  const double warm =
      static_cast<double>(Share(config.top_k_warmup_fraction, config.total_steps()));
  const double p = static_cast<double>(step) / warm;
  if (p >= 1) return final_k;
  const double from = static_cast<double>(config.initial_top_k), to = static_cast<double>(final_k);
  const double k = config.top_k_warmup == TopKWarmup::kLinear ? from + (to - from) * p
                                                              : from * std::pow(to / from, p);
  return std::llround(k);
}

}  // namespace lorsa::trainer

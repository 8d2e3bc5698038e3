#include "trainer/train/schedule.h"

#include <algorithm>

namespace lorsa::trainer {
namespace {

int64_t Share(double fraction, int64_t steps) {
  return std::max<int64_t>(1, static_cast<int64_t>(fraction * static_cast<double>(steps)));
}

}  // namespace

double LearningRate(const TrainConfig& config, int64_t step) {
  const int64_t steps = config.total_steps();
  const double warm = static_cast<double>(Share(config.warmup_fraction, steps));
  const double cool = static_cast<double>(Share(config.decay_fraction, steps));
  const double rise = std::min(1.0, static_cast<double>(step + 1) / warm);
  const double left = static_cast<double>(steps - step) / cool;
  const double fall = left > 1 ? 1.0 : std::max(left, config.final_learning_rate_factor);
  return config.learning_rate * rise * fall;
}

}  // namespace lorsa::trainer

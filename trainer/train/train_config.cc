#include "trainer/train/train_config.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/lorsa/field_check.h"

namespace lorsa::trainer {
namespace {

constexpr int64_t kMaxTokens = 10'000'000'000'000;

absl::Status CheckSet(const TrainConfig& config) {
  const store::Manifest& set = config.set;
  LORSA_RETURN_IF_ERROR(CheckWhole("the set's context", set.context, 1, 1 << 20));
  LORSA_RETURN_IF_ERROR(
      CheckAbove("the set's mean norm of mhsa_input", set.mean_input_norm, 0, 1e30));
  LORSA_RETURN_IF_ERROR(
      CheckAbove("the set's mean norm of mhsa_output", set.mean_output_norm, 0, 1e30));
  if (set.d_model != config.lorsa.d_model) {
    return absl::InvalidArgumentError(absl::StrCat("d_model is ", config.lorsa.d_model,
                                                   "; the activation set has ", set.d_model, "."));
  }
  if (set.training_sequences() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("The activation set has ", set.sequences,
                     " sequences, all of them held out; give a larger set."));
  }
  return absl::OkStatus();
}

absl::Status CheckOptimizer(const TrainConfig& config) {
  LORSA_RETURN_IF_ERROR(CheckAbove("learning_rate", config.learning_rate, 0, 1));
  LORSA_RETURN_IF_ERROR(
      CheckReal("qk_learning_rate_factor", config.qk_learning_rate_factor, 0, 100));
  LORSA_RETURN_IF_ERROR(CheckReal("warmup_fraction", config.warmup_fraction, 0, 1));
  LORSA_RETURN_IF_ERROR(CheckReal("decay_fraction", config.decay_fraction, 0, 1));
  LORSA_RETURN_IF_ERROR(CheckReal("warmup_fraction plus decay_fraction",
                                  config.warmup_fraction + config.decay_fraction, 0, 1));
  LORSA_RETURN_IF_ERROR(
      CheckReal("final_learning_rate_factor", config.final_learning_rate_factor, 0, 1));
  const double below_one = std::nextafter(1.0, 0.0);
  LORSA_RETURN_IF_ERROR(CheckReal("adam_beta1", config.adam_beta1, 0, below_one));
  LORSA_RETURN_IF_ERROR(CheckReal("adam_beta2", config.adam_beta2, 0, below_one));
  LORSA_RETURN_IF_ERROR(CheckAbove("adam_epsilon", config.adam_epsilon, 0, 1));
  return CheckReal("max_gradient_norm", config.max_gradient_norm, 0, 1e30);
}

}  // namespace

int64_t TrainConfig::StepsFor(int64_t tokens) const {
  const int64_t per_step = tokens_per_step();
  return std::max<int64_t>(1, (tokens + per_step - 1) / per_step);
}

double TrainConfig::input_scale() const {
  return std::sqrt(static_cast<double>(set.d_model)) / set.mean_input_norm;
}

double TrainConfig::output_scale() const {
  return std::sqrt(static_cast<double>(set.d_model)) / set.mean_output_norm;
}

absl::Status ValidateTrainConfig(const TrainConfig& config) {
  LORSA_RETURN_IF_ERROR(ValidateLorsaConfig(config.lorsa));
  LORSA_RETURN_IF_ERROR(CheckSet(config));
  LORSA_RETURN_IF_ERROR(CheckWhole("tokens", config.total_tokens, 1, kMaxTokens));
  LORSA_RETURN_IF_ERROR(CheckWhole("sequences_per_step", config.sequences_per_step, 1, 4096));
  LORSA_RETURN_IF_ERROR(CheckOptimizer(config));
  LORSA_RETURN_IF_ERROR(CheckWhole("threads", config.threads, 1, 1024));
  LORSA_RETURN_IF_ERROR(
      CheckWhole("evaluation_interval_tokens", config.evaluation_interval_tokens, 1, kMaxTokens));
  return CheckWhole("checkpoint_interval_tokens", config.checkpoint_interval_tokens, 1, kMaxTokens);
}

}  // namespace lorsa::trainer

#include "trainer/config/train_config.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/config/field_check.h"

namespace lorsa::trainer {
namespace {

constexpr int64_t kMaxTokens = 10'000'000'000'000;
constexpr int64_t kMaxRefitTokens = 1'000'000'000;
constexpr int64_t kMaxRefitHeads = 16'384;  // 2 GiB for the matrix in double precision

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
  LORSA_RETURN_IF_ERROR(CheckReal("max_gradient_norm", config.max_gradient_norm, 0, 1e30));
  LORSA_RETURN_IF_ERROR(
      CheckReal("w_v_learning_rate_factor", config.w_v_learning_rate_factor, 0, 100));
  LORSA_RETURN_IF_ERROR(
      CheckReal("w_o_learning_rate_factor", config.w_o_learning_rate_factor, 0, 100));
  return CheckReal("bias_learning_rate_factor", config.bias_learning_rate_factor, 0, 100);
}

absl::Status CheckHeads(const TrainConfig& config) {
  const int64_t heads = config.lorsa.n_ov_heads;
  LORSA_RETURN_IF_ERROR(CheckReal("top_k_warmup_fraction", config.top_k_warmup_fraction, 0, 1));
  if (config.top_k_warmup_fraction > 0) {
    LORSA_RETURN_IF_ERROR(CheckWhole("initial_top_k", config.initial_top_k, 1, heads));
  }
  LORSA_RETURN_IF_ERROR(CheckReal("decoder_norm", config.decoder_norm, 0, 1e6));
  LORSA_RETURN_IF_ERROR(CheckAbove("dead_after_fraction", config.dead_after_fraction, 0, 1));
  LORSA_RETURN_IF_ERROR(CheckReal("aux_coefficient", config.aux_coefficient, 0, 1000));
  LORSA_RETURN_IF_ERROR(CheckWhole("aux_top_k", config.aux_top_k, 1, heads));
  LORSA_RETURN_IF_ERROR(
      CheckReal("resample_interval_fraction", config.resample_interval_fraction, 0, 1));
  LORSA_RETURN_IF_ERROR(CheckReal("resample_until_fraction", config.resample_until_fraction, 0, 1));
  return CheckAbove("resample_firing_factor", config.resample_firing_factor, 0, 100);
}

absl::Status CheckPublished(const TrainConfig& config) {
  LORSA_RETURN_IF_ERROR(CheckReal("ema_fraction", config.ema_fraction, 0, 1));
  LORSA_RETURN_IF_ERROR(CheckWhole("refit_tokens", config.refit_tokens, 0, kMaxRefitTokens));
  LORSA_RETURN_IF_ERROR(CheckAbove("refit_ridge", config.refit_ridge, 0, 1e6));
  if (config.refit_tokens > 0 && config.lorsa.n_ov_heads > kMaxRefitHeads) {
    return absl::InvalidArgumentError(
        absl::StrCat("refit_tokens needs a matrix of n_ov_heads² numbers, at most ", kMaxRefitHeads,
                     " heads; there are ", config.lorsa.n_ov_heads, ". Set it to 0."));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t TrainConfig::StepsFor(int64_t tokens) const {
  const int64_t per_step = tokens_per_step();
  return std::max<int64_t>(1, (tokens + per_step - 1) / per_step);
}

int64_t TrainConfig::dead_after_tokens() const {
  const double tokens = static_cast<double>(total_steps() * tokens_per_step());
  return std::max<int64_t>(1, static_cast<int64_t>(dead_after_fraction * tokens));
}

bool TrainConfig::ResamplesAt(int64_t step) const {
  if (resample_interval_fraction == 0 || step == 0) return false;
  const double steps = static_cast<double>(total_steps());
  const auto interval =
      std::max<int64_t>(1, static_cast<int64_t>(resample_interval_fraction * steps));
  return step % interval == 0 && static_cast<double>(step) <= resample_until_fraction * steps;
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
  LORSA_RETURN_IF_ERROR(CheckHeads(config));
  LORSA_RETURN_IF_ERROR(CheckPublished(config));
  LORSA_RETURN_IF_ERROR(
      CheckWhole("ranks", config.ranks, 1, std::min<int64_t>(64, config.sequences_per_step)));
  LORSA_RETURN_IF_ERROR(CheckWhole("threads", config.threads, 1, 1024));
  LORSA_RETURN_IF_ERROR(
      CheckWhole("evaluation_interval_tokens", config.evaluation_interval_tokens, 1, kMaxTokens));
  LORSA_RETURN_IF_ERROR(
      CheckWhole("checkpoint_interval_tokens", config.checkpoint_interval_tokens, 1, kMaxTokens));
  return CheckWhole("max_rollbacks", config.max_rollbacks, 0, 100);
}

}  // namespace lorsa::trainer

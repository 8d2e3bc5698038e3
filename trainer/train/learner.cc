#include "trainer/train/learner.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/train/adam.h"
#include "trainer/train/dead_heads.h"
#include "trainer/train/decoder_norm.h"
#include "trainer/train/evaluation.h"
#include "trainer/train/gradients.h"
#include "trainer/train/rollback.h"
#include "trainer/train/schedule.h"
#include "trainer/train/weight_average.h"

namespace lorsa::trainer {
namespace {

// Adam squares gradients in fp32; the square of a longer one would be Inf.
constexpr double kMaxGradientNorm = 1e19;

absl::Status NotFinite(absl::string_view what, const LoadedBatch& loaded, int64_t number) {
  return NotFiniteError(absl::StrCat(what, " is NaN or Inf at step ", number, ", on ",
                                     SequencesText(loaded.sequences),
                                     "; lower the learning rate or set max_gradient_norm."));
}

absl::Status CheckFinite(const TrainConfig& config, const LoadedBatch& loaded,
                         const StepResult& step, double gradient_norm, int64_t number) {
  if (!std::isfinite(step.loss)) return NotFinite("The loss", loaded, number);
  if (!std::isfinite(gradient_norm)) {
    const std::string tensor = FirstNonFinite(config.lorsa, step.gradients);
    return NotFinite(absl::StrCat("The gradient of ", tensor), loaded, number);
  }
  const bool clipped = config.max_gradient_norm > 0 && config.max_gradient_norm < kMaxGradientNorm;
  if (gradient_norm > kMaxGradientNorm && !clipped) {
    return NotFinite("The square of the gradient", loaded, number);
  }
  return absl::OkStatus();
}

absl::Status CheckWeights(const TrainConfig& config, const LoadedBatch& loaded,
                          const AdamReport& adam, const LorsaParameters& parameters,
                          int64_t number) {
  if (std::isfinite(adam.parameter_norm)) return absl::OkStatus();
  return NotFinite(FirstNonFinite(config.lorsa, parameters), loaded, number);
}

// AuxK, if it is on and there are dead heads for it.
std::optional<AuxLoss> AuxOf(const TrainConfig& config, const at::Tensor& dead,
                             int64_t dead_heads) {
  if (config.aux_coefficient == 0 || dead_heads == 0) return std::nullopt;
  return AuxLoss{.dead = dead,
                 .top_k = std::min(config.aux_top_k, dead_heads),
                 .coefficient = config.aux_coefficient};
}

LearningRates RatesOf(const TrainConfig& config, double rate) {
  return {.qk = rate * config.qk_learning_rate_factor,
          .w_v = rate * config.w_v_learning_rate_factor,
          .w_o = rate * config.w_o_learning_rate_factor,
          .biases = rate * config.bias_learning_rate_factor};
}

}  // namespace

absl::StatusOr<StepReport> Learner::Step(const LoadedBatch& loaded, TrainingState& state) {
  const at::Tensor dead = DeadHeads(config_, state);
  const int64_t dead_heads = dead.sum().item<int64_t>();
  const int64_t top_k = TopK(config_, state.counts.step);
  StepResult step = kernel_.ForwardBackward(
      state.parameters, loaded.batch,
      {.top_k = top_k, .loss_targets = loaded.targets, .aux = AuxOf(config_, dead, dead_heads)});
  if (config_.decoder_norm > 0) RemoveParallelPart(state.parameters, step.gradients);
  const double rate = LearningRate(config_, state.counts.step) *
                      LearningRateFactor(state.counts.rollbacks, state.counts.step + 1);
  const double targets = static_cast<double>(loaded.targets);
  const double firings = step.firings.sum().item<double>();
  StepReport report{
      .loss = step.loss,
      .l0 = firings / targets,
      .aux_loss = step.aux_loss,
      .top_k = top_k,
      .dead_fraction =
          static_cast<double>(dead_heads) / static_cast<double>(config_.lorsa.n_ov_heads),
      .gradient_norm = GlobalNorm(config_.lorsa, step.gradients),
      .learning_rate = rate,
      .learning_rates = RatesOf(config_, rate),
      .fvu = step.loss * targets / loaded.target_variance,
      .dense_fraction =
          (step.firings > kDenseShare * targets).to(at::kDouble).mean().item<double>(),
      .activation_mean = firings > 0 ? step.activation_sum / firings : 0,
      .activation_max = step.activation_max};
  LORSA_RETURN_IF_ERROR(
      CheckFinite(config_, loaded, step, report.gradient_norm, state.counts.step + 1));
  LORSA_RETURN_IF_ERROR(Apply(loaded, step, report, state));
  return report;
}

absl::Status Learner::Apply(const LoadedBatch& loaded, const StepResult& step, StepReport& report,
                            TrainingState& state) const {
  const AdamReport adam = ApplyAdam(
      config_.lorsa,
      {.beta1 = config_.adam_beta1, .beta2 = config_.adam_beta2, .epsilon = config_.adam_epsilon},
      report.learning_rates, ClippingFactor(report.gradient_norm, config_.max_gradient_norm),
      step.gradients, state.parameters, state.adam);
  LORSA_RETURN_IF_ERROR(
      CheckWeights(config_, loaded, adam, state.parameters, state.counts.step + 1));
  if (adam.parameter_norm > 0) report.update_ratio = adam.update_norm / adam.parameter_norm;
  if (config_.decoder_norm > 0) ProjectDecoder(config_.decoder_norm, state.parameters);
  if (state.averaged) {
    UpdateAverage(config_, state.adam.steps, state.parameters, *state.averaged);
    if (config_.decoder_norm > 0) MoveDecoderNorm(config_.decoder_norm, *state.averaged);
  }
  state.tokens_since_fired.add_(config_.tokens_per_step()).masked_fill_(step.firings > 0, 0);
  return absl::OkStatus();
}

}  // namespace lorsa::trainer

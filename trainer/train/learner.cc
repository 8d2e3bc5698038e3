#include "trainer/train/learner.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/train/adam.h"
#include "trainer/train/gradients.h"
#include "trainer/train/schedule.h"

namespace lorsa::trainer {
namespace {

absl::Status CheckFinite(const TrainConfig& config, const LoadedBatch& loaded,
                         const StepResult& step, double gradient_norm, int64_t number) {
  if (std::isfinite(step.loss) && std::isfinite(gradient_norm)) return absl::OkStatus();
  const std::string what =
      std::isfinite(step.loss)
          ? absl::StrCat("The gradient of ", FirstNonFinite(config.lorsa, step.gradients))
          : std::string("The loss");
  return absl::AbortedError(absl::StrCat(what, " is NaN or Inf at step ", number, ", on ",
                                         SequencesText(loaded.sequences),
                                         "; lower the learning rate or set max_gradient_norm."));
}

}  // namespace

absl::StatusOr<StepReport> Learner::Step(const LoadedBatch& loaded, TrainingState& state) {
  StepResult step =
      kernel_.ForwardBackward(state.parameters, loaded.batch,
                              {.top_k = config_.lorsa.top_k, .loss_targets = loaded.targets});
  const StepReport report{
      .loss = step.loss,
      .l0 = step.firings.sum().item<double>() / static_cast<double>(loaded.targets),
      .gradient_norm = GlobalNorm(config_.lorsa, step.gradients),
      .learning_rate = LearningRate(config_, state.counts.step)};
  LORSA_RETURN_IF_ERROR(
      CheckFinite(config_, loaded, step, report.gradient_norm, state.counts.step + 1));
  ClipToNorm(config_.lorsa, report.gradient_norm, config_.max_gradient_norm, step.gradients);
  ApplyAdam(
      config_.lorsa,
      {.beta1 = config_.adam_beta1, .beta2 = config_.adam_beta2, .epsilon = config_.adam_epsilon},
      report.learning_rate, config_.qk_learning_rate_factor, step.gradients, state.parameters,
      state.adam);
  state.tokens_since_fired.add_(config_.tokens_per_step()).masked_fill_(step.firings > 0, 0);
  return report;
}

}  // namespace lorsa::trainer

#include "trainer/train/run_reporter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lorsa::trainer {
namespace {

// Weight of the newest step in the moving average of tokens/s: about the last ten steps.
constexpr double kRateWeight = 0.1;
// The first steps of a process are slow; they do not count.
constexpr int64_t kStepsBeforeTiming = 2;
constexpr int64_t kStepsTimed = 5;
// What a sequence of the refit takes, relative to one of an evaluation: 1.1 and 1.6 were measured
// at SmolLM2-135M's size.
constexpr double kRefitPerEvaluation = 1.5;

}  // namespace

void RunReporter::Phase(absl::string_view phase, const TrainingCounts& counts) {
  progress_.phase = std::string(phase);
  SendProgress(counts);
}

void RunReporter::Step(const StepReport& report, const StepTime& time,
                       const TrainingCounts& counts) {
  const double seconds = std::max(absl::ToDoubleSeconds(time.elapsed), 1e-9);
  const double rate = static_cast<double>(config_.tokens_per_step()) / seconds;
  progress_.loss = report.loss;
  progress_.l0 = report.l0;
  progress_.tokens_per_second =
      progress_.tokens_per_second == 0
          ? rate
          : (1 - kRateWeight) * progress_.tokens_per_second + kRateWeight * rate;
  if (++steps_timed_ > kStepsBeforeTiming) {
    step_seconds_ =
        step_seconds_ == 0 ? seconds : (1 - kRateWeight) * step_seconds_ + kRateWeight * seconds;
  }
  const MemoryUse memory = host_.memory_use().value_or(MemoryUse());
  const double scale = config_.output_scale();
  Send(MetricKind::kTraining,
       {{"loss", report.loss},
        {"mse", report.loss / (scale * scale)},
        {"fvu", report.fvu},
        {"explained_variance", 1 - report.fvu},
        {"l0", report.l0},
        {"dense_fraction", report.dense_fraction},
        {"activation_mean", report.activation_mean},
        {"activation_max", report.activation_max},
        {"gradient_norm", report.gradient_norm},
        {"learning_rate", report.learning_rate},
        {"qk_learning_rate", report.learning_rates.qk},
        {"top_k", static_cast<double>(report.top_k)},
        {"dead_fraction", report.dead_fraction},
        {"resampled_heads", static_cast<double>(report.resampled_heads)},
        {"aux_loss", report.aux_loss},
        {"update_ratio", report.update_ratio},
        {"tokens_per_second", rate},
        {"data_wait_fraction", absl::ToDoubleSeconds(time.waited) / seconds},
        {"memory_bytes", static_cast<double>(memory.resident)},
        {"peak_memory_bytes", static_cast<double>(memory.peak)},
        {"skipped_batches", static_cast<double>(counts.skipped_batches)},
        {"rollbacks", static_cast<double>(counts.rollbacks.size())}},
       counts);
  SendProgress(counts);
}

void RunReporter::Evaluation(std::map<std::string, double> values, absl::Duration elapsed,
                             const TrainingCounts& counts) {
  evaluation_seconds_ = absl::ToDoubleSeconds(elapsed);
  Send(MetricKind::kEvaluation, std::move(values), counts);
  SendProgress(counts);
}

std::optional<absl::Duration> RunReporter::Remaining(const TrainingCounts& counts) const {
  if (steps_timed_ < kStepsTimed) return std::nullopt;
  const int64_t total = config_.total_steps(), interval = config_.evaluation_interval_steps();
  // The one at the end counts once.
  const int64_t evaluations = (total - 1) / interval - counts.step / interval + 1;
  return absl::Seconds(static_cast<double>(total - counts.step) * step_seconds_ +
                       static_cast<double>(std::max<int64_t>(evaluations, 0)) *
                           evaluation_seconds_ +
                       (counts.refitted ? 0 : RefitSeconds()));
}

double RunReporter::RefitSeconds() const {
  if (config_.refit_tokens == 0) return 0;
  const int64_t sequences =
      std::min({config_.refit_tokens / config_.set.context, config_.set.training_sequences(),
                config_.total_steps() * config_.sequences_per_step});
  const double passes = kRefitPerEvaluation * static_cast<double>(sequences) /
                        static_cast<double>(config_.set.held_out_sequences());
  return (passes + 1) * evaluation_seconds_;  // one more evaluation decides
}

void RunReporter::Send(MetricKind kind, std::map<std::string, double> values,
                       const TrainingCounts& counts) {
  std::erase_if(values, [](const auto& item) { return !std::isfinite(item.second); });
  host_.ReportMetrics({.kind = kind,
                       .step = counts.step,
                       .tokens = counts.sequences_consumed * config_.set.context,
                       .values = std::move(values)});
}

void RunReporter::SendProgress(const TrainingCounts& counts) {
  progress_.step = counts.step;
  progress_.total_steps = config_.total_steps();
  progress_.tokens = counts.sequences_consumed * config_.set.context;
  progress_.total_tokens = config_.total_steps() * config_.tokens_per_step();
  progress_.fvu = counts.fvu;
  if (const auto remaining = Remaining(counts)) {
    progress_.remaining_seconds = absl::ToDoubleSeconds(*remaining);
  }
  host_.ReportProgress(progress_);
}

}  // namespace lorsa::trainer

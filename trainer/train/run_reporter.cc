#include "trainer/train/run_reporter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lorsa::trainer {
namespace {

// Weight of the newest step in the moving average of tokens/s: about the last ten steps.
constexpr double kRateWeight = 0.1;

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
  const double scale = config_.output_scale();
  Send(MetricKind::kTraining,
       {{"loss", report.loss},
        {"mse", report.loss / (scale * scale)},
        {"l0", report.l0},
        {"gradient_norm", report.gradient_norm},
        {"learning_rate", report.learning_rate},
        {"qk_learning_rate", report.learning_rates.qk},
        {"top_k", static_cast<double>(report.top_k)},
        {"dead_fraction", report.dead_fraction},
        {"resampled_heads", static_cast<double>(report.resampled_heads)},
        {"aux_loss", report.aux_loss},
        {"tokens_per_second", rate},
        {"data_wait_fraction", absl::ToDoubleSeconds(time.waited) / seconds},
        {"skipped_batches", static_cast<double>(counts.skipped_batches)}},
       counts);
  SendProgress(counts);
}

void RunReporter::Evaluation(std::map<std::string, double> values, const TrainingCounts& counts) {
  Send(MetricKind::kEvaluation, std::move(values), counts);
  SendProgress(counts);
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
  host_.ReportProgress(progress_);
}

}  // namespace lorsa::trainer

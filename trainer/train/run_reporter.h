// What a run tells its host while it goes: progress and metric points.
#ifndef LORSA_TRAINER_TRAIN_RUN_REPORTER_H_
#define LORSA_TRAINER_TRAIN_RUN_REPORTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "trainer/config/train_config.h"
#include "trainer/train/learner.h"
#include "trainer/train/run_host.h"
#include "trainer/train/training_state.h"

namespace lorsa::trainer {

struct StepTime {
  absl::Duration elapsed;  // from the end of the step before
  absl::Duration waited;   // of this, for data
};

// One thread. `config` and `host` outlive it.
class RunReporter {
 public:
  RunReporter(const TrainConfig& config, RunHost& host) : config_(config), host_(host) {}

  // The run does something else now: see Progress.phase.
  void Phase(absl::string_view phase, const TrainingCounts& counts);
  // Metrics by the names of docs/metrics.md; those that are not finite are left out.
  void Step(const StepReport& report, const StepTime& time, const TrainingCounts& counts);
  void Evaluation(std::map<std::string, double> values, absl::Duration elapsed,
                  const TrainingCounts& counts);

  // Until the end of the run; none before a few steps were timed.
  std::optional<absl::Duration> Remaining(const TrainingCounts& counts) const;

 private:
  void Send(MetricKind kind, std::map<std::string, double> values, const TrainingCounts& counts);
  void SendProgress(const TrainingCounts& counts);
  double RefitSeconds() const;

  const TrainConfig& config_;
  RunHost& host_;
  Progress progress_;
  int64_t steps_timed_ = 0;
  double step_seconds_ = 0;        // moving average
  double evaluation_seconds_ = 0;  // of the newest; 0 before the first
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_RUN_REPORTER_H_

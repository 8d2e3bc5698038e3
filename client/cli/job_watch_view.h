// What a person sees of a job that is being watched.
#ifndef LORSA_CLIENT_CLI_JOB_WATCH_VIEW_H_
#define LORSA_CLIENT_CLI_JOB_WATCH_VIEW_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cli/environment.h"
#include "client/cli/progress_display.h"
#include "lorsa/v1/job.pb.h"
#include "lorsa/v1/metric_service.pb.h"

namespace lorsa::cli {

// Tokens, loss, FVU, L0, tokens per second and time left, as far as they are known.
std::vector<ProgressPart> ProgressParts(const v1::JobProgress& progress);

// "2026-11-30 12:00:00Z  QUEUED -> STARTING  message"
std::string EventLine(const v1::JobEvent& event);

// "2026-11-30 12:00:00Z  EVALUATION  step 40  tokens 81.9k  fvu 0.2814 …"
std::string EvaluationLine(const v1::MetricPoint& point);

// One thread at a time.
class JobWatchView {
 public:
  explicit JobWatchView(Environment& env) : display_(env.out, env.now) {}

  void ShowEvent(const v1::JobEvent& event) { display_.PrintLine(EventLine(event)); }
  void ShowEvaluation(const v1::MetricPoint& point) { display_.PrintLine(EvaluationLine(point)); }
  void ShowProgress(const v1::JobProgress& progress);
  // Says once that the connection is lost, and once that it is back.
  void ShowOutage(const absl::Status& why);
  void ShowConnected();
  // How the job ended and what to do next.
  void ShowEnd(absl::string_view job_id, v1::JobState state);

 private:
  ProgressDisplay display_;
  bool connected_ = true;
};

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_JOB_WATCH_VIEW_H_

#include "client/cli/job_watch_command.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "client/cli/format.h"
#include "client/cli/job_watch_view.h"
#include "lorsa/client/job_watch.h"
#include "lorsa/client/metric_stream.h"
#include "lorsa/client/progress.h"

namespace lorsa::cli {
namespace {

int ExitCodeOf(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_SUCCEEDED:
      return kSuccess;
    case v1::JOB_STATE_CANCELLED:
      return kJobCancelled;
    default:
      return kJobFailed;
  }
}

// The watch for people: events and evaluations as lines, progress as a bar. Evaluations are asked
// for when the progress shows a new one, and before the final event, so that none is missed.
class HumanWatch {
 public:
  HumanWatch(Session& session, std::string name)
      : session_(session), name_(std::move(name)), view_(session.env) {}

  client::WatchCallbacks Callbacks() {
    return {
        .on_job = [this](const v1::Job&) { view_.ShowConnected(); },
        .on_event =
            [this](const v1::JobEvent& event) {
              if (client::IsFinal(event.to_state())) ShowNewEvaluations();
              view_.ShowEvent(event);
            },
        .on_progress =
            [this](const v1::JobProgress& progress) {
              const std::optional<double> fvu = client::ProgressValue(progress, "fvu");
              if (fvu.has_value() && *fvu != fvu_) {
                fvu_ = *fvu;
                ShowNewEvaluations();
              }
              view_.ShowProgress(progress);
            },
        .on_outage = [this](const absl::Status& why, absl::Duration) { view_.ShowOutage(why); }};
  }
  void ShowEnd(v1::JobState state) { view_.ShowEnd(IdOf(name_), state); }

 private:
  void ShowNewEvaluations() {
    v1::StreamMetricsRequest request;
    request.set_job(name_);
    request.set_kind(v1::METRIC_KIND_EVALUATION);
    request.set_history_only(true);
    request.set_after_sequence(sequence_);
    // Should it fail, the next call brings these points too.
    const absl::Status status =
        client::StreamMetrics(
            session_.client, request,
            [this](const v1::MetricPoint& point) {
              sequence_ = point.sequence();
              view_.ShowEvaluation(point);
            },
            [this](const absl::Status& why, absl::Duration) { view_.ShowOutage(why); })
            .status();
    if (status.ok()) view_.ShowConnected();
  }

  Session& session_;
  const std::string name_;
  JobWatchView view_;
  double fvu_ = -1;       // of the newest evaluation seen in the progress; none is negative
  int64_t sequence_ = 0;  // of the newest evaluation shown
};

// The watch for programs: what the server sends, a line each.
client::WatchCallbacks JsonCallbacks(std::ostream& out) {
  const auto print = [&out](auto set) {
    v1::WatchJobResponse response;
    set(response);
    PrintJson(out, response);
  };
  return {
      .on_job = [print](const v1::Job& job) { print([&](auto& r) { *r.mutable_job() = job; }); },
      .on_event =
          [print](const v1::JobEvent& event) {
            print([&](auto& r) { *r.mutable_event() = event; });
          },
      .on_progress =
          [print](const v1::JobProgress& progress) {
            print([&](auto& r) { *r.mutable_progress() = progress; });
          },
      .on_outage = nullptr};
}

}  // namespace

absl::StatusOr<int> WatchJob(Session& session, const std::string& name, int64_t after_revision) {
  absl::StatusOr<v1::JobState> state;
  if (session.json) {
    state = client::WatchJob(session.client, name, after_revision, JsonCallbacks(session.out()));
  } else {
    HumanWatch watch(session, name);
    state = client::WatchJob(session.client, name, after_revision, watch.Callbacks());
    if (state.ok()) watch.ShowEnd(*state);
  }
  if (absl::IsCancelled(state.status())) {
    session.env.err.stream << name << " goes on. Watch it again with: lorsa job watch "
                           << IdOf(name) << std::endl;
    return kInterrupted;
  }
  if (!state.ok()) return state.status();
  return ExitCodeOf(*state);
}

}  // namespace lorsa::cli

#include "server/services/job_sources.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "server/model/job_state.h"

namespace lorsa::server {
namespace {

constexpr int kEventsPerPage = 100;
// A message that waits for its client takes about 3 KB a point.
constexpr int kPointsPerMessage = 64;

}  // namespace

WatchSource::WatchSource(const JobManager& jobs, const Catalog& catalog, JobWatchHub& watchers,
                         std::string job_id, int64_t after_revision, Waker waker)
    : jobs_(jobs),
      catalog_(catalog),
      job_id_(std::move(job_id)),
      after_revision_(after_revision),
      subscription_(watchers.Subscribe(job_id_, kJobEvent | kJobProgress, std::move(waker))) {}

absl::StatusOr<Pulled> WatchSource::Next(v1::WatchJobResponse& message) {
  if (!started_) return First(message);
  if (TakeProgress(message)) return Pulled::kMessage;
  return NextEvent(message);
}

absl::StatusOr<Pulled> WatchSource::First(v1::WatchJobResponse& message) {
  LORSA_ASSIGN_OR_RETURN(v1::Job job, jobs_.GetJob(job_id_));
  if (after_revision_ > job.revision()) {  // of another job, or of a catalog since restored
    return InvalidField("after_revision",
                        absl::StrCat("is ", after_revision_,
                                     ", but the newest event of the job is ", job.revision()));
  }
  if (IsFinal(job.state())) last_revision_ = job.revision();
  sent_progress_ = job.progress().SerializeAsString();
  *message.mutable_job() = std::move(job);
  started_ = true;
  return Pulled::kMessage;
}

bool WatchSource::TakeProgress(v1::WatchJobResponse& message) {
  std::optional<v1::JobProgress> progress = jobs_.Progress(job_id_);
  if (!progress.has_value()) return false;
  std::string serialized = progress->SerializeAsString();
  if (serialized == sent_progress_) return false;
  sent_progress_ = std::move(serialized);
  *message.mutable_progress() = *std::move(progress);
  return true;
}

absl::StatusOr<Pulled> WatchSource::NextEvent(v1::WatchJobResponse& message) {
  if (last_revision_ != 0 && after_revision_ >= last_revision_) return Pulled::kEnd;
  if (page_.empty()) {
    LORSA_ASSIGN_OR_RETURN(std::vector<v1::JobEvent> events,
                           catalog_.ListEvents(job_id_, after_revision_, kEventsPerPage));
    if (events.empty()) return Pulled::kNothing;
    page_.assign(std::make_move_iterator(events.begin()), std::make_move_iterator(events.end()));
  }
  *message.mutable_event() = std::move(page_.front());
  page_.pop_front();
  after_revision_ = message.event().revision();
  if (!IsFinal(message.event().to_state())) return Pulled::kMessage;
  // In the history of a job that was retried such an event is not the last.
  LORSA_ASSIGN_OR_RETURN(const JobRecord job, catalog_.GetJob(job_id_));
  if (IsFinal(job.job.state())) last_revision_ = job.job.revision();
  return Pulled::kMessage;
}

MetricSource::MetricSource(const Catalog& catalog, JobWatchHub& watchers, std::string job_id,
                           const v1::StreamMetricsRequest& request, Waker waker)
    : catalog_(catalog),
      job_id_(std::move(job_id)),
      filter_{.kind = request.kind(),
              .every_steps = std::max(request.every_steps(), 1),
              .names = {request.names().begin(), request.names().end()}},
      history_only_(request.history_only()),
      after_sequence_(request.after_sequence()),
      subscription_(watchers.Subscribe(job_id_, kJobEvent | kJobMetrics, std::move(waker))) {}

absl::StatusOr<Pulled> MetricSource::Next(v1::StreamMetricsResponse& message) {
  if (done_) return Pulled::kEnd;
  message.Clear();
  LORSA_ASSIGN_OR_RETURN(
      const MetricsSoFar metrics,
      catalog_.MetricsAfter(job_id_, after_sequence_, filter_, kPointsPerMessage));
  if (!metrics.points.empty()) {
    after_sequence_ = metrics.points.back().sequence();
    message.mutable_points()->Assign(metrics.points.begin(), metrics.points.end());
    return Pulled::kMessage;
  }
  if (!IsFinal(metrics.state)) return history_only_ ? Pulled::kEnd : Pulled::kNothing;
  message.set_final_state(metrics.state);
  done_ = true;
  return Pulled::kMessage;
}

LogSource::LogSource(const Catalog& catalog, LogReader reader, JobWatchHub& watchers,
                     std::string job_id, bool follow, Waker waker)
    : catalog_(catalog),
      reader_(std::move(reader)),
      job_id_(std::move(job_id)),
      follow_(follow),
      subscription_(watchers.Subscribe(job_id_, kJobEvent | kJobTick, std::move(waker))) {}

absl::StatusOr<Pulled> LogSource::Next(v1::ReadLogsResponse& message) {
  // The state first: what a worker printed before its job ended is in the file by then.
  LORSA_ASSIGN_OR_RETURN(const JobRecord job, catalog_.GetJob(job_id_));
  const v1::JobState state = job.job.state();
  LORSA_ASSIGN_OR_RETURN(std::optional<LogChunk> chunk,
                         reader_.Next(job.job.attempt(), !follow_ || !HasWorker(state)));
  if (!chunk.has_value()) return follow_ && !IsFinal(state) ? Pulled::kNothing : Pulled::kEnd;
  message.set_attempt(chunk->attempt);
  message.set_text(std::move(chunk->text));
  message.mutable_end()->set_attempt(chunk->end.attempt);
  message.mutable_end()->set_offset(static_cast<int64_t>(chunk->end.offset));
  return Pulled::kMessage;
}

}  // namespace lorsa::server

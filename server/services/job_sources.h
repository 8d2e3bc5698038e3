// What the streams about one job are fed from. Each catches up from durable state (catalog, log
// files) and is woken when there is more, so a slow client costs no memory and misses nothing.
#ifndef LORSA_SERVER_SERVICES_JOB_SOURCES_H_
#define LORSA_SERVER_SERVICES_JOB_SOURCES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lorsa/v1/job_service.pb.h"
#include "lorsa/v1/metric_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_watch.h"
#include "server/jobs/log_reader.h"
#include "server/rpc/server_stream.h"

namespace lorsa::server {

// The job, then its events in order, none left out, and the newest progress in between; ends after
// the event of a final state.
class WatchSource final : public StreamSource<v1::WatchJobResponse> {
 public:
  WatchSource(const JobManager& jobs, const Catalog& catalog, JobWatchHub& watchers,
              std::string job_id, int64_t after_revision, Waker waker);
  absl::StatusOr<Pulled> Next(v1::WatchJobResponse& message) override;

 private:
  absl::StatusOr<Pulled> First(v1::WatchJobResponse& message);
  // True if there was progress that the client has not seen.
  bool TakeProgress(v1::WatchJobResponse& message);
  absl::StatusOr<Pulled> NextEvent(v1::WatchJobResponse& message);

  const JobManager& jobs_;
  const Catalog& catalog_;
  const std::string job_id_;
  int64_t after_revision_;
  bool started_ = false;
  // Nothing comes after this revision; 0 = not known yet.
  int64_t last_revision_ = 0;
  std::deque<v1::JobEvent> page_;  // read, not sent yet
  std::string sent_progress_;      // serialised
  const std::unique_ptr<JobWatchHub::Subscription> subscription_;
};

// Points in the order of their commits, at most 64 a message; the last message carries the final
// state.
class MetricSource final : public StreamSource<v1::StreamMetricsResponse> {
 public:
  MetricSource(const Catalog& catalog, JobWatchHub& watchers, std::string job_id,
               const v1::StreamMetricsRequest& request, Waker waker);
  absl::StatusOr<Pulled> Next(v1::StreamMetricsResponse& message) override;

 private:
  const Catalog& catalog_;
  const std::string job_id_;
  const MetricFilter filter_;
  const bool history_only_;
  int64_t after_sequence_;
  bool done_ = false;
  const std::unique_ptr<JobWatchHub::Subscription> subscription_;
};

// The logs of all attempts; with `follow` until the job has ended.
class LogSource final : public StreamSource<v1::ReadLogsResponse> {
 public:
  LogSource(const Catalog& catalog, LogReader reader, JobWatchHub& watchers, std::string job_id,
            bool follow, Waker waker);
  absl::StatusOr<Pulled> Next(v1::ReadLogsResponse& message) override;

 private:
  const Catalog& catalog_;
  LogReader reader_;
  const std::string job_id_;
  const bool follow_;
  const std::unique_ptr<JobWatchHub::Subscription> subscription_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_JOB_SOURCES_H_

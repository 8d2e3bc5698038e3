// The numbers are those of the protocol in job_remover.h.
#include "server/jobs/job_remover.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <string>
#include <vector>

#include "base/status_macros.h"
#include "server/jobs/job_file.h"
#include "server/jobs/job_requests.h"

namespace lorsa::server {
namespace {

constexpr int kJobsAtOnce = 100;

}  // namespace

absl::Status JobRemover::Delete(absl::string_view id, bool even_if_pinned) {
  return Mark(
      id, [even_if_pinned](const JobRecord& job) { return CheckDeletable(job, even_if_pinned); });
}

absl::Status JobRemover::Mark(absl::string_view id, const JobCheck& check) {
  LORSA_RETURN_IF_ERROR(env_.catalog.DeleteJob(id, check));  // 1
  spdlog::info("event=job_deleted job={}", std::string(id));
  env_.watchers.Notify(id, kJobEvent);
  return absl::OkStatus();
}

void JobRemover::MarkExpired() {
  const absl::Time now = env_.now();
  const absl::StatusOr<std::vector<JobRecord>> expired = env_.catalog.ExpiredJobs(now, kJobsAtOnce);
  if (!expired.ok()) {
    spdlog::warn("event=expiry_failed error=\"{}\"", expired.status().ToString());
    return;
  }
  for (const JobRecord& job : *expired) {
    // A pin or a retry may have come in between; the job then stays. Or it was deleted.
    const absl::Status deleted =
        Mark(job.id, [now](const JobRecord& current) { return CheckExpired(current, now); });
    if (deleted.ok() || absl::IsFailedPrecondition(deleted) || absl::IsNotFound(deleted)) continue;
    spdlog::warn("event=expiry_failed job={} error=\"{}\"", job.id, deleted.ToString());
  }
}

bool JobRemover::Work() {
  MarkExpired();
  const absl::StatusOr<std::vector<JobRecord>> deleted = env_.catalog.DeletedJobs(kJobsAtOnce);
  if (!deleted.ok()) {
    spdlog::warn("event=removal_failed error=\"{}\"", deleted.status().ToString());
    return false;
  }
  bool more = false;
  for (const JobRecord& job : *deleted) {
    if (job.worker.pid != 0 && env_.launcher.Check(job.worker).alive) continue;
    const absl::StatusOr<bool> done = Remove(job);
    if (!done.ok()) {
      spdlog::warn("event=removal_failed job={} error=\"{}\"", job.id, done.status().ToString());
    } else if (*done) {
      spdlog::info("event=job_removed job={}", job.id);
    } else {
      more = true;
    }
  }
  return more;
}

absl::StatusOr<bool> JobRemover::Remove(const JobRecord& job) {
  const std::string folder = env_.layout.JobFolder(job.id);
  LORSA_ASSIGN_OR_RETURN(const bool exists, env_.fs.Exists(folder));
  if (exists) {
    // After a restore the folder may belong to a newer job of this id; the next start adopts it.
    LORSA_ASSIGN_OR_RETURN(const std::optional<v1::Job> file, ReadJobFile(env_, job.id));
    if (file.has_value() && CreateTimeOf(*file) != CreateTimeOf(job.job)) {
      return env_.catalog.PurgeJob(job.id);
    }
    LORSA_RETURN_IF_ERROR(env_.fs.RemoveAll(folder));                        // 2
    LORSA_RETURN_IF_ERROR(env_.fs.SyncDirectory(env_.layout.JobsFolder()));  // 2
  }
  return env_.catalog.PurgeJob(job.id);  // 3
}

}  // namespace lorsa::server

#include "server/jobs/staging.h"

#include <spdlog/spdlog.h>

#include <string>
#include <vector>

#include "server/jobs/job_state.h"

namespace lorsa::server {

void RemoveStaging(const JobEnvironment& env, const AttemptKey& attempt) {
  const absl::Status removed =
      env.fs.RemoveAll(env.layout.StagingFolder(attempt.job_id, attempt.attempt));
  if (removed.ok()) return;
  spdlog::warn("event=staging_not_removed job={} attempt={} error=\"{}\"", attempt.job_id,
               attempt.attempt, removed.ToString());
}

void RemoveStagingOfEndedJobs(const JobEnvironment& env) {
  const absl::StatusOr<std::vector<std::string>> ids = env.fs.List(env.layout.JobsFolder());
  if (!ids.ok()) return;  // No job has run yet, or the disk fails and is heard of elsewhere.
  for (const std::string& id : *ids) {
    const absl::StatusOr<JobRecord> job = env.catalog.GetJob(id);
    if (job.ok() && IsFinal(job->job.state())) RemoveStaging(env, {id, job->job.attempt()});
  }
}

}  // namespace lorsa::server

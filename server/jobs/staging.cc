#include "server/jobs/staging.h"

#include <spdlog/spdlog.h>

namespace lorsa::server {

void RemoveStaging(const JobEnvironment& env, const AttemptKey& attempt) {
  const absl::Status removed =
      env.fs.RemoveAll(env.layout.StagingFolder(attempt.job_id, attempt.attempt));
  if (removed.ok()) return;
  spdlog::warn("event=staging_not_removed job={} attempt={} error=\"{}\"", attempt.job_id,
               attempt.attempt, removed.ToString());
}

}  // namespace lorsa::server

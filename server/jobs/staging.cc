#include "server/jobs/staging.h"

#include <spdlog/spdlog.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"

namespace lorsa::server {

void RemoveStaging(const JobEnvironment& env, const AttemptKey& last) {
  const absl::StatusOr<std::vector<std::string>> attempts =
      env.fs.List(env.layout.AttemptsFolder(last.job_id));
  if (!attempts.ok()) return;  // None has run yet, or the disk fails and is heard of elsewhere.
  for (const std::string& name : *attempts) {
    int attempt = 0;
    if (!absl::SimpleAtoi(name, &attempt) || attempt > last.attempt) continue;
    // A worker that was killed while it wrote its outcome leaves this; nobody writes it again.
    env.fs.Remove(env.layout.OutcomeFile(last.job_id, attempt) + ".tmp").IgnoreError();
    const absl::Status removed = env.fs.RemoveAll(env.layout.StagingFolder(last.job_id, attempt));
    if (removed.ok()) continue;
    spdlog::warn("event=staging_not_removed job={} attempt={} error=\"{}\"", last.job_id, attempt,
                 removed.ToString());
  }
}

}  // namespace lorsa::server

#include "server/jobs/job_changes.h"

#include <spdlog/spdlog.h>

#include <string>

#include "server/jobs/staging.h"
#include "server/model/job_state.h"

namespace lorsa::server {
namespace {

// spdlog's formatter does not know Abseil's string_view.
std::string Str(absl::string_view text) { return std::string(text); }

}  // namespace

absl::StatusOr<JobRecord> CommitChange(const JobEnvironment& env, absl::string_view job_id,
                                       const JobDecision& decision) {
  absl::StatusOr<JobRecord> record = env.catalog.UpdateJob(job_id, env.now(), decision);
  if (!record.ok()) return record;
  spdlog::info("event=job_changed job={} attempt={} state={} revision={} reason={}", record->id,
               record->job.attempt(), Str(JobStateName(record->job.state())),
               record->job.revision(), record->job.reason());
  env.watchers.Notify(record->id, kJobEvent);
  if (IsFinal(record->job.state())) RemoveStaging(env, {record->id, record->job.attempt()});
  return record;
}

}  // namespace lorsa::server

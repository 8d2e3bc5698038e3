// The one way in which this folder changes a job: commit, log, wake the watchers.
#ifndef LORSA_SERVER_JOBS_JOB_CHANGES_H_
#define LORSA_SERVER_JOBS_JOB_CHANGES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"

namespace lorsa::server {

// Catalog::UpdateJob, then a log line and a signal to watchers; a job that ends loses its staging.
absl::StatusOr<JobRecord> CommitChange(const JobEnvironment& env, absl::string_view job_id,
                                       const JobDecision& decision);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_CHANGES_H_

// jobs/ID/job.textproto: what makes up a job, kept beside its data, so that a catalog which is
// older than the data can have the job again (data_adoption.h).
#ifndef LORSA_SERVER_JOBS_JOB_FILE_H_
#define LORSA_SERVER_JOBS_JOB_FILE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lorsa/v1/job.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"

namespace lorsa::server {

// Atomically; its folder must exist.
absl::Status WriteJobFile(const JobEnvironment& env, const JobRecord& job);

// Nothing if there is none, or if it does not parse: it is then logged.
absl::StatusOr<std::optional<v1::Job>> ReadJobFile(const JobEnvironment& env,
                                                   const std::string& job_id);

// The job of such a file, to be created at `CreateTimeOf` it.
NewJob NewJobOf(const std::string& job_id, const v1::Job& file);
absl::Time CreateTimeOf(const v1::Job& job);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_FILE_H_

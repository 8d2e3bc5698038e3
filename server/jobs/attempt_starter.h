// Steps 1 to 4 in the life of an attempt (job_manager.h).
#ifndef LORSA_SERVER_JOBS_ATTEMPT_STARTER_H_
#define LORSA_SERVER_JOBS_ATTEMPT_STARTER_H_

#include <string>

#include "absl/status/status.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"

namespace lorsa::server {

// One caller at a time.
class AttemptStarter {
 public:
  AttemptStarter(const JobOptions& options, const JobEnvironment& environment)
      : options_(options), env_(environment) {}

  // Launches the next attempt of `job`, which was QUEUED or RECOVERING when `job` was read. After
  // an error nothing can be launched: the job is as it was or, if the worker could not be spawned,
  // QUEUED. OK if only mpirun is missing: the job has lost its worker then.
  absl::Status Start(const JobRecord& job);

 private:
  // What earlier attempts staged and did not publish, nobody reads again.
  void TidyEarlierAttempts(const JobRecord& job);
  absl::Status ClearFolder(const AttemptKey& attempt);
  absl::Status PrepareFolders(const AttemptKey& attempt);
  absl::Status WriteBootstrap(const AttemptKey& attempt, const std::string& token);
  absl::Status Spawn(const AttemptKey& attempt, const JobRecord& job, const JobKind& kind);

  const JobOptions options_;
  const JobEnvironment env_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_ATTEMPT_STARTER_H_

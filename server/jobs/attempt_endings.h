// How the end of an attempt changes its job: by the worker's outcome, or by its loss. Pure
// decisions, taken inside the catalog's transaction (Catalog::UpdateJob).
#ifndef LORSA_SERVER_JOBS_ATTEMPT_ENDINGS_H_
#define LORSA_SERVER_JOBS_ATTEMPT_ENDINGS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"

namespace lorsa::server {

// Reason of a job that is PAUSING, or then PAUSED, because its set was found damaged.
inline constexpr char kSetQuarantined[] = "SET_QUARANTINED";

// Reason of a job that cannot run because its set was deleted or its id given to other contents.
inline constexpr char kSetChanged[] = "SET_CHANGED";

// Reason of a worker that was refused because it speaks another version of the protocol, or does
// not run jobs of this kind.
inline constexpr char kWorkerVersion[] = "WORKER_VERSION";

// What is known of the end of any attempt.
struct AttemptEnd {
  absl::Time time;
  std::string log_tail;  // the last lines of its log; becomes Job.log_tail if it was lost or failed
};

// A worker that is gone without an outcome.
struct Loss {
  std::string reason = "WORKER_LOST";  // or OUT_OF_MEMORY, STUCK, WORKER_VERSION; see Job.reason
  std::string cause;                   // a clause: "its process was killed by signal 9 (Killed)"
  bool unreachable = false;            // the machine that was to run it could not be reached
  bool not_started = false;            // its program could not be started on this machine
  AttemptEnd end;
};

// What the loss of `attempt` does: RECOVERING with a growing backoff, FAILED once recoveries are
// used up or workers keep dying before they have begun (tries in vain to reach a machine count as
// neither, and come max_backoff apart), QUEUED if its program could not be started, PAUSED or
// CANCELLED if the client wanted it stopped anyway, FAILED if its deadline did. StaleAttempt if it
// is not the job's current one. A job that is PAUSING because its set is damaged becomes PAUSED
// with that reason, also if its worker failed over the damage first; the same holds for
// OutcomeDecision.
JobDecision LossDecision(int attempt, const Loss& loss, const JobOptions& options);

// What `outcome` does. One that the worker was not asked for (PAUSED, CANCELLED) counts as a loss.
JobDecision OutcomeDecision(int attempt, const v1::WorkerOutcome& outcome, const AttemptEnd& end,
                            const JobOptions& options);

// FAILED_PRECONDITION (STALE_ATTEMPT): the answer to a worker that must exit.
absl::Status StaleAttempt(const AttemptKey& attempt);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_ATTEMPT_ENDINGS_H_

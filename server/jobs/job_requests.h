// What clients, and deadlines, ask of a job: decisions taken inside the catalog's transaction
// (Catalog::UpdateJob). Where the job's state forbids it: FAILED_PRECONDITION (WRONG_JOB_STATE).
#ifndef LORSA_SERVER_JOBS_JOB_REQUESTS_H_
#define LORSA_SERVER_JOBS_JOB_REQUESTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {

// Reason of a job that ends because of its deadline.
inline constexpr char kDeadlineReason[] = "DEADLINE";

// RUNNING → PAUSING, for that reason.
JobDecision PauseDecision(std::string reason, std::string message);

// PAUSED → QUEUED, behind the others of its priority.
absl::StatusOr<JobChange> ResumeDecision(const JobRecord& job);

// → CANCELLING, or CANCELLED where there is no worker. ABORTED if the job is CANCELLING already:
// there is nothing to change.
absl::StatusOr<JobChange> CancelDecision(const JobRecord& job);

// FAILED → QUEUED, behind the others of its priority. A deadline before `now` counts no longer.
JobDecision RetryDecision(absl::Time now);

// → CANCELLING with the reason DEADLINE, which ends in FAILED, or FAILED where there is no worker.
// ABORTED for a job that has ended, is CANCELLING, or whose deadline is not over at `now`.
JobDecision DeadlineDecision(absl::Time now);

// Gives the job the fields of `policy` that `fields` names: names of fields of JobPolicy.
JobDecision UpdateDecision(const v1::JobPolicy& policy, std::vector<std::string> fields);

// Whether the job can be deleted: FAILED_PRECONDITION (WRONG_JOB_STATE) unless it has ended, or
// (PINNED_CHECKPOINT) if one of its checkpoints is pinned and that shall count.
absl::Status CheckDeletable(const JobRecord& job, bool even_if_pinned);

// Whether the job has outlived its ttl: FAILED_PRECONDITION if it has not, or cannot be deleted.
absl::Status CheckExpired(const JobRecord& job, absl::Time now);

// Whether a checkpoint can be deleted: FAILED_PRECONDITION (CHECKPOINT_PINNED) if it is pinned.
absl::Status CheckNotPinned(const JobRecord& job, const v1::Checkpoint& checkpoint);

// The same, and FAILED_PRECONDITION (CHECKPOINT_NEEDED) for the newest undamaged one of a job that
// has not ended.
absl::Status CheckUnneeded(const JobRecord& job, const v1::Checkpoint& checkpoint);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_REQUESTS_H_

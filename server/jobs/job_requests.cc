#include "server/jobs/job_requests.h"

#include <google/protobuf/util/field_mask_util.h>
#include <google/protobuf/util/time_util.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "server/model/job_state.h"

namespace lorsa::server {
namespace {

using google::protobuf::util::TimeUtil;

absl::Status WrongState(const JobRecord& job, absl::string_view remedy) {
  const std::string state(JobStateName(job.job.state()));
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat("job ", job.id, " is ", state, "; ", remedy)),
      "WRONG_JOB_STATE", {{"job", job.id}, {"state", state}});
}

// Whether the job has a deadline and it is over.
bool IsOverdue(const v1::Job& job, absl::Time now) {
  return job.policy().has_deadline() &&
         TimeUtil::TimestampToNanoseconds(job.policy().deadline()) <= absl::ToUnixNanos(now);
}

}  // namespace

JobDecision PauseDecision(std::string reason, std::string message) {
  return [=](const JobRecord& job) -> absl::StatusOr<JobChange> {
    if (job.job.state() != v1::JOB_STATE_RUNNING) {
      return WrongState(job, "only a RUNNING job can be paused");
    }
    return JobChange{.state = v1::JOB_STATE_PAUSING, .reason = reason, .message = message};
  };
}

absl::StatusOr<JobChange> ResumeDecision(const JobRecord& job) {
  if (job.job.state() != v1::JOB_STATE_PAUSED) {
    return WrongState(job, "only a PAUSED job can be resumed");
  }
  return JobChange{
      .state = v1::JOB_STATE_QUEUED, .reason = "RESUMED", .recoveries = 0, .to_end_of_queue = true};
}

absl::StatusOr<JobChange> CancelDecision(const JobRecord& job) {
  const v1::JobState state = job.job.state();
  if (IsFinal(state)) return WrongState(job, "it has ended and cannot be cancelled");
  if (state == v1::JOB_STATE_CANCELLING) return absl::AbortedError("CANCELLING already");
  return JobChange{.state = HasWorker(state) ? v1::JOB_STATE_CANCELLING : v1::JOB_STATE_CANCELLED,
                   .reason = "CANCEL_REQUESTED"};
}

JobDecision RetryDecision(absl::Time now) {
  return [now](const JobRecord& job) -> absl::StatusOr<JobChange> {
    if (job.job.state() != v1::JOB_STATE_FAILED) {
      return WrongState(job, "only a FAILED job can be retried");
    }
    return JobChange{.state = v1::JOB_STATE_QUEUED,
                     .reason = "RETRIED",
                     .recoveries = 0,
                     .startup_failures = 0,
                     .drop_deadline = IsOverdue(job.job, now),
                     .to_end_of_queue = true};
  };
}

JobDecision DeadlineDecision(absl::Time now) {
  return [now](const JobRecord& job) -> absl::StatusOr<JobChange> {
    const v1::JobState state = job.job.state();
    if (IsFinal(state) || state == v1::JOB_STATE_CANCELLING || !IsOverdue(job.job, now)) {
      return absl::AbortedError("the deadline has nothing to end");
    }
    return JobChange{.state = HasWorker(state) ? v1::JOB_STATE_CANCELLING : v1::JOB_STATE_FAILED,
                     .reason = kDeadlineReason,
                     .message = absl::StrCat("the job had not ended by its deadline, ",
                                             TimeUtil::ToString(job.job.policy().deadline()))};
  };
}

JobDecision UpdateDecision(const v1::JobPolicy& policy, std::vector<std::string> fields) {
  google::protobuf::FieldMask mask;
  for (const std::string& field : fields) mask.add_paths(field);
  google::protobuf::util::FieldMaskUtil::MergeOptions options;
  options.set_replace_repeated_fields(true);
  options.set_replace_message_fields(true);
  return [=, message = absl::StrCat(absl::StrJoin(fields, ", "), " changed")](
             const JobRecord& job) -> absl::StatusOr<JobChange> {
    v1::JobPolicy changed = job.job.policy();
    google::protobuf::util::FieldMaskUtil::MergeMessageTo(policy, mask, options, &changed);
    return JobChange{.reason = "UPDATED", .message = message, .policy = std::move(changed)};
  };
}

absl::Status CheckDeletable(const JobRecord& job, bool even_if_pinned) {
  if (!IsFinal(job.job.state())) return WrongState(job, "cancel it before you delete it");
  if (!job.has_pin || even_if_pinned) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "a checkpoint of job ", job.id, " is pinned; unpin it, or delete the job with force")),
      "PINNED_CHECKPOINT", {{"job", job.id}});
}

absl::Status CheckExpired(const JobRecord& job, absl::Time now) {
  LORSA_RETURN_IF_ERROR(CheckDeletable(job, /*even_if_pinned=*/false));
  if (job.job.has_expire_time() &&
      TimeUtil::TimestampToNanoseconds(job.job.expire_time()) <= absl::ToUnixNanos(now)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("job ", job.id, " has not outlived its ttl"));
}

absl::Status CheckNotPinned(const JobRecord&, const v1::Checkpoint& checkpoint) {
  if (!checkpoint.pinned()) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(checkpoint.name(), " is pinned; unpin it first")),
      "CHECKPOINT_PINNED", {{"checkpoint", checkpoint.name()}});
}

absl::Status CheckUnneeded(const JobRecord& job, const v1::Checkpoint& checkpoint) {
  if (!IsFinal(job.job.state()) && job.job.latest_checkpoint() == checkpoint.name()) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          checkpoint.name(), " is the newest of job ", job.id,
                          ", which has not ended and would resume from it; cancel the job first")),
                      "CHECKPOINT_NEEDED", {{"checkpoint", checkpoint.name()}});
  }
  return CheckNotPinned(job, checkpoint);
}

}  // namespace lorsa::server

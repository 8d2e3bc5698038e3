#include "server/jobs/attempt_endings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/jobs/job_state.h"
#include "server/rpc/errors.h"
#include "server/rpc/utf8.h"

namespace lorsa::server {
namespace {

// Of what a worker says about itself: goes into a row and into error details.
constexpr size_t kMaxReasonBytes = 64;
constexpr size_t kMaxMessageBytes = 4096;

absl::Duration Backoff(int recovery, const JobOptions& options) {
  return std::min(options.first_backoff * std::ldexp(1.0, recovery - 1), options.max_backoff);
}

JobChange GiveUp(const JobRecord& job, const Loss& loss) {
  JobChange change{.state = v1::JOB_STATE_FAILED, .reason = "WORKER_LOST"};
  change.message =
      absl::StrCat("the worker was lost ", job.recoveries + 1,
                   " times without a new checkpoint, the last time because ", loss.cause);
  if (!loss.log_tail.empty()) {
    absl::StrAppend(&change.message, "; its log ends:\n", loss.log_tail);
  }
  return change;
}

JobChange Recover(const JobRecord& job, const Loss& loss, const JobOptions& options) {
  const int recovery = job.recoveries + 1;
  const absl::Duration backoff = Backoff(recovery, options);
  JobChange change{.state = v1::JOB_STATE_RECOVERING, .reason = "WORKER_LOST"};
  change.message =
      absl::StrCat("the worker was lost because ", loss.cause, "; recovery ", recovery, " of ",
                   options.max_recoveries, " begins in ", absl::FormatDuration(backoff));
  change.not_before = loss.time + backoff;
  change.recoveries = recovery;
  return change;
}

JobChange ChangeOnLoss(const JobRecord& job, const Loss& loss, const JobOptions& options) {
  switch (job.job.state()) {
    case v1::JOB_STATE_CANCELLING:
      return {.state = v1::JOB_STATE_CANCELLED,
              .message = absl::StrCat("the worker was stopped: ", loss.cause)};
    case v1::JOB_STATE_PAUSING:
      return {.state = v1::JOB_STATE_PAUSED,
              .reason = "WORKER_LOST",
              .message = absl::StrCat("the worker was lost while pausing because ", loss.cause,
                                      "; resuming goes on from the newest checkpoint")};
    default:
      return job.recoveries < options.max_recoveries ? Recover(job, loss, options)
                                                     : GiveUp(job, loss);
  }
}

// What the worker's leaving means when it did what it was asked to.
std::optional<v1::JobState> StateAfter(v1::WorkerOutcome::Kind kind, v1::JobState state) {
  switch (kind) {
    case v1::WorkerOutcome::KIND_SUCCEEDED:
      if (state == v1::JOB_STATE_STARTING) return std::nullopt;
      return v1::JOB_STATE_SUCCEEDED;
    case v1::WorkerOutcome::KIND_FAILED:
      return v1::JOB_STATE_FAILED;
    case v1::WorkerOutcome::KIND_PAUSED:
    case v1::WorkerOutcome::KIND_CANCELLED:
    case v1::WorkerOutcome::KIND_DRAINED:
      if (state == v1::JOB_STATE_CANCELLING) return v1::JOB_STATE_CANCELLED;
      if (kind == v1::WorkerOutcome::KIND_CANCELLED) return std::nullopt;
      if (state == v1::JOB_STATE_PAUSING) return v1::JOB_STATE_PAUSED;
      if (kind == v1::WorkerOutcome::KIND_PAUSED) return std::nullopt;
      return v1::JOB_STATE_QUEUED;
    default:
      return std::nullopt;
  }
}

// `change`, unless the job is being paused because its set is damaged, and comes to that.
JobChange OrQuarantined(const JobRecord& job, JobChange change) {
  const bool stops = change.state == v1::JOB_STATE_PAUSED || change.state == v1::JOB_STATE_FAILED;
  if (job.job.state() != v1::JOB_STATE_PAUSING || job.job.reason() != kSetQuarantined || !stops) {
    return change;
  }
  change.state = v1::JOB_STATE_PAUSED;
  change.reason = kSetQuarantined;
  change.message = job.job.message();
  return change;
}

bool IsCurrent(const JobRecord& job, int attempt) {
  return job.job.attempt() == attempt && HasWorker(job.job.state());
}

}  // namespace

absl::Status StaleAttempt(const AttemptKey& attempt) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat("attempt ", attempt.attempt, " of job ",
                                                 attempt.job_id, " is over; the worker must exit")),
      "STALE_ATTEMPT", {{"job", attempt.job_id}, {"attempt", absl::StrCat(attempt.attempt)}});
}

JobDecision LossDecision(int attempt, const Loss& loss, const JobOptions& options) {
  return [=](const JobRecord& job) -> absl::StatusOr<JobChange> {
    if (!IsCurrent(job, attempt)) return StaleAttempt({job.id, attempt});
    return OrQuarantined(job, ChangeOnLoss(job, loss, options));
  };
}

JobDecision OutcomeDecision(int attempt, const v1::WorkerOutcome& outcome, absl::Time now,
                            const JobOptions& options) {
  return [=](const JobRecord& job) -> absl::StatusOr<JobChange> {
    if (!IsCurrent(job, attempt)) return StaleAttempt({job.id, attempt});
    const std::optional<v1::JobState> state = StateAfter(outcome.kind(), job.job.state());
    if (!state.has_value()) {
      const Loss loss{.cause = absl::StrCat("it left unasked with the outcome ",
                                            v1::WorkerOutcome::Kind_Name(outcome.kind())),
                      .time = now};
      return OrQuarantined(job, ChangeOnLoss(job, loss, options));
    }
    JobChange change{.state = state};
    change.reason =
        *state == v1::JOB_STATE_QUEUED ? "DRAIN" : Utf8Prefix(outcome.reason(), kMaxReasonBytes);
    change.message = Utf8Prefix(outcome.message(), kMaxMessageBytes);
    return OrQuarantined(job, std::move(change));
  };
}

}  // namespace lorsa::server

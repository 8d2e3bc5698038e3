#include "server/jobs/attempt_endings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/utf8.h"
#include "server/jobs/job_requests.h"
#include "server/model/job_state.h"

namespace lorsa::server {
namespace {

// Of what a worker says about itself: goes into a row and into error details.
constexpr size_t kMaxReasonBytes = 64;
constexpr size_t kMaxMessageBytes = 4096;

absl::Duration Backoff(int recovery, const JobOptions& options) {
  return std::min(options.first_backoff * std::ldexp(1.0, recovery - 1), options.max_backoff);
}

JobChange GiveUp(const std::string& reason, std::string message) {
  return {.state = v1::JOB_STATE_FAILED, .reason = reason, .message = std::move(message)};
}

JobChange Recover(const JobRecord& job, int startup_failures, const Loss& loss,
                  const JobOptions& options) {
  const int recovery = job.recoveries + 1;
  const absl::Duration backoff = Backoff(recovery, options);
  JobChange change{.state = v1::JOB_STATE_RECOVERING, .reason = loss.reason};
  change.message =
      absl::StrCat("the worker was lost because ", loss.cause, "; recovery ", recovery, " of ",
                   options.max_recoveries, " begins in ", absl::FormatDuration(backoff));
  change.not_before = loss.end.time + backoff;
  change.recoveries = recovery;
  change.startup_failures = startup_failures;
  return change;
}

JobChange TryToReachAgain(const Loss& loss, const JobOptions& options) {
  return {.state = v1::JOB_STATE_RECOVERING,
          .reason = std::string(kUnreachable),
          .message =
              absl::StrCat("the machine of the worker could not be reached: ", loss.cause,
                           "; the next try begins in ", absl::FormatDuration(options.max_backoff)),
          .not_before = loss.end.time + options.max_backoff};
}

JobChange ReturnToQueue(const Loss& loss) {
  return {.state = v1::JOB_STATE_QUEUED,
          .reason = "LAUNCH_FAILED",
          .message = absl::StrCat("the worker did not start because ", loss.cause)};
}

JobChange RecoverOrGiveUp(const JobRecord& job, const Loss& loss, const JobOptions& options) {
  const bool at_startup = job.job.state() == v1::JOB_STATE_STARTING;
  if (at_startup && loss.unreachable) return TryToReachAgain(loss, options);
  if (at_startup && loss.not_started) return ReturnToQueue(loss);
  const int startup_failures = at_startup ? job.startup_failures + 1 : 0;
  if (startup_failures >= options.max_startup_failures) {
    return GiveUp("STARTUP_CRASH",
                  absl::StrCat("the worker was lost ", startup_failures,
                               " times before it had begun, the last time because ", loss.cause));
  }
  if (job.recoveries >= options.max_recoveries) {
    return GiveUp(
        loss.reason,
        absl::StrCat("the worker was lost ", job.recoveries + 1,
                     " times without a new checkpoint, the last time because ", loss.cause));
  }
  return Recover(job, startup_failures, loss, options);
}

// The end of a job that is CANCELLING.
JobChange Stopped(const JobRecord& job, std::string message) {
  if (job.job.reason() == kDeadlineReason) {
    return GiveUp(kDeadlineReason, job.job.message());
  }
  return {.state = v1::JOB_STATE_CANCELLED, .message = std::move(message)};
}

JobChange ChangeOnLoss(const JobRecord& job, const Loss& loss, const JobOptions& options) {
  switch (job.job.state()) {
    case v1::JOB_STATE_CANCELLING:
      return Stopped(job, absl::StrCat("the worker was stopped: ", loss.cause));
    case v1::JOB_STATE_PAUSING:
      return {.state = v1::JOB_STATE_PAUSED,
              .reason = loss.reason,
              .message = absl::StrCat("the worker was lost while pausing because ", loss.cause,
                                      "; resuming goes on from the newest checkpoint")};
    default:
      return RecoverOrGiveUp(job, loss, options);
  }
}

JobChange LossChange(const JobRecord& job, const Loss& loss, const JobOptions& options) {
  JobChange change = ChangeOnLoss(job, loss, options);
  change.log_tail = loss.end.log_tail;
  return change;
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
    return OrQuarantined(job, LossChange(job, loss, options));
  };
}

JobDecision OutcomeDecision(int attempt, const v1::WorkerOutcome& outcome, const AttemptEnd& end,
                            const JobOptions& options) {
  return [=](const JobRecord& job) -> absl::StatusOr<JobChange> {
    if (!IsCurrent(job, attempt)) return StaleAttempt({job.id, attempt});
    const std::optional<v1::JobState> state = StateAfter(outcome.kind(), job.job.state());
    if (!state.has_value()) {
      const Loss loss{.cause = absl::StrCat("it left unasked with the outcome ",
                                            v1::WorkerOutcome::Kind_Name(outcome.kind())),
                      .end = end};
      return OrQuarantined(job, LossChange(job, loss, options));
    }
    const std::string message = Utf8Prefix(outcome.message(), kMaxMessageBytes);
    if (state == v1::JOB_STATE_CANCELLED) return Stopped(job, message);
    JobChange change{.state = state, .message = message};
    change.reason =
        *state == v1::JOB_STATE_QUEUED ? "DRAIN" : Utf8Prefix(outcome.reason(), kMaxReasonBytes);
    if (state == v1::JOB_STATE_FAILED) change.log_tail = end.log_tail;
    return OrQuarantined(job, std::move(change));
  };
}

}  // namespace lorsa::server

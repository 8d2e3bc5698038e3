#include "server/jobs/scheduler.h"

#include <google/protobuf/text_format.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/jobs/attempt_endings.h"
#include "server/jobs/job_changes.h"
#include "server/jobs/job_state.h"
#include "server/jobs/log_reader.h"

namespace lorsa::server {
namespace {

constexpr size_t kMaxOutcomeBytes = 64 << 10;
constexpr size_t kLogTailBytes = 2048;
constexpr absl::Duration kLaunchRetry = absl::Seconds(5);

absl::StatusOr<v1::WorkerOutcome> ReadOutcome(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kMaxOutcomeBytes));
  v1::WorkerOutcome outcome;
  if (google::protobuf::TextFormat::ParseFromString(text, &outcome)) return outcome;
  return absl::DataLossError(absl::StrCat(path, " is not a WorkerOutcome"));
}

// What the worker of a job in this state must be told.
v1::Command StandingCommand(v1::JobState state, bool draining) {
  switch (state) {
    case v1::JOB_STATE_PAUSING:
      return v1::COMMAND_PAUSE;
    case v1::JOB_STATE_CANCELLING:
      return v1::COMMAND_CANCEL;
    case v1::JOB_STATE_RUNNING:
      return draining ? v1::COMMAND_DRAIN : v1::COMMAND_UNSPECIFIED;
    default:
      return v1::COMMAND_UNSPECIFIED;
  }
}

JobDecision DrainDecision(const AttemptKey& attempt) {
  return [=](const JobRecord& job) -> absl::StatusOr<JobChange> {
    if (job.job.attempt() != attempt.attempt || job.job.state() != v1::JOB_STATE_STARTING) {
      return StaleAttempt(attempt);
    }
    return JobChange{.state = v1::JOB_STATE_QUEUED, .reason = "DRAIN"};
  };
}

std::string FailureText(absl::string_view event, absl::string_view job_id,
                        const absl::Status& status) {
  return absl::StrCat("what=", event, job_id.empty() ? "" : " job=", job_id, " error=\"",
                      status.ToString(), "\" ");
}

}  // namespace

Scheduler::Scheduler(const JobOptions& options, const JobEnvironment& environment,
                     LiveAttempts& live)
    : options_(options), env_(environment), live_(live), starter_(options, environment) {}

void Scheduler::Poll() {
  failures_.clear();
  TendAndLaunch();
  condition_.Note(failures_ + launch_failures_);
}

void Scheduler::TendAndLaunch() {
  const bool draining = Draining();
  const absl::StatusOr<std::vector<JobRecord>> active = ReadActive(draining);
  if (!active.ok()) {
    NoteFailure("catalog_unreadable", "", active.status());
    if (draining) SetDrain(Drain::kUnknown);
    return;
  }
  int with_worker = 0;
  std::vector<ProcessIdentity> watched;
  for (const JobRecord& job : *active) {
    if (!HasWorker(job.job.state())) continue;
    ++with_worker;
    watched.push_back(job.worker);
    Tend(job);
    env_.watchers.Notify(job.id, kJobTick);
  }
  // One whose job has ended is still on its way out; one that was killed here is dying.
  env_.launcher.ReapAllBut(watched);
  if (!draining) return LaunchWaiting(*active);
  SetDrain(with_worker == 0 ? Drain::kDone : Drain::kUnderWay);
}

absl::StatusOr<std::vector<JobRecord>> Scheduler::ReadActive(bool draining) const {
  // Jobs known from caches alone would keep a drain waiting for what can never be recorded.
  if (draining) LORSA_RETURN_IF_ERROR(env_.catalog.CheckReadable());
  return env_.catalog.ActiveJobs();
}

void Scheduler::Tend(const JobRecord& job) {
  const AttemptKey attempt{job.id, job.job.attempt()};
  if (EndIfOver(job, attempt)) return;
  const bool draining = Draining();
  if (draining && job.job.state() == v1::JOB_STATE_STARTING) return ReturnToQueue(job, attempt);
  const v1::Command command = StandingCommand(job.job.state(), draining);
  if (command != v1::COMMAND_UNSPECIFIED) live_.Command(attempt, command);
}

bool Scheduler::EndIfOver(const JobRecord& job, const AttemptKey& attempt) {
  const absl::Duration now = env_.uptime();
  const absl::Duration last_heard = live_.Observe(attempt, now);
  if (job.worker.pid != 0) {
    const ProcessStatus process = env_.launcher.Check(job.worker);
    if (!process.alive) {
      EndDeadWorker(job, attempt, process.ending);
      return true;
    }
  }
  if (job.job.state() == v1::JOB_STATE_CANCELLING &&
      now >= live_.KillTime(attempt, now + options_.cancel_grace)) {
    Kill(job);
    Lose(job, attempt, "it was killed after its time to leave");
    return true;
  }
  if (now - last_heard > options_.silence_timeout) {
    Kill(job);
    Lose(job, attempt,
         absl::StrCat("it was silent for ", absl::FormatDuration(options_.silence_timeout)));
    return true;
  }
  return false;
}

void Scheduler::EndDeadWorker(const JobRecord& job, const AttemptKey& attempt,
                              absl::string_view ending) {
  const absl::StatusOr<v1::WorkerOutcome> outcome =
      ReadOutcome(env_.fs, env_.layout.OutcomeFile(attempt.job_id, attempt.attempt));
  if (!outcome.ok()) {
    if (!absl::IsNotFound(outcome.status())) {
      NoteFailure("outcome_unreadable", job.id, outcome.status());
    }
    return Lose(job, attempt,
                ending.empty() ? "its process is gone" : absl::StrCat("its process ", ending));
  }
  const absl::StatusOr<JobRecord> changed =
      CommitChange(env_, job.id, OutcomeDecision(attempt.attempt, *outcome, env_.now(), options_));
  if (!changed.ok()) return NoteFailure("outcome_not_recorded", job.id, changed.status());
  live_.End(attempt, StaleAttempt(attempt));
}

void Scheduler::Kill(const JobRecord& job) {
  if (job.worker.pid != 0) env_.launcher.Kill(job.worker);
}

void Scheduler::Lose(const JobRecord& job, const AttemptKey& attempt, absl::string_view cause) {
  const Loss loss{.cause = std::string(cause),
                  .log_tail = LogTail(env_.fs, env_.layout.LogFile(attempt.job_id, attempt.attempt),
                                      kLogTailBytes),
                  .time = env_.now()};
  const absl::StatusOr<JobRecord> changed =
      CommitChange(env_, job.id, LossDecision(attempt.attempt, loss, options_));
  // The next Poll tries again, unless something else ended the attempt first.
  if (!changed.ok()) return NoteFailure("loss_not_recorded", job.id, changed.status());
  live_.End(attempt, StaleAttempt(attempt));
}

void Scheduler::ReturnToQueue(const JobRecord& job, const AttemptKey& attempt) {
  const absl::StatusOr<JobRecord> changed = CommitChange(env_, job.id, DrainDecision(attempt));
  if (!changed.ok()) return NoteFailure("drain_not_recorded", job.id, changed.status());
  Kill(job);
  live_.End(attempt, StaleAttempt(attempt));
}

void Scheduler::LaunchWaiting(const std::vector<JobRecord>& active) {
  const std::string obstacle = env_.launch_obstacle();
  held_back_.Note(obstacle.empty() ? "" : absl::StrCat("reason=\"", obstacle, "\""));
  if (!obstacle.empty() || env_.uptime() < next_launch_) return;
  launch_failures_.clear();
  for (const JobRecord& job : active) {
    if (job.job.state() == v1::JOB_STATE_RECOVERING && BackoffIsOver(job)) Launch(job);
  }
  LaunchQueued(options_.max_running_jobs - static_cast<int>(active.size()));
}

void Scheduler::LaunchQueued(int count) {
  if (count <= 0) return;
  const absl::StatusOr<std::vector<JobRecord>> queued = env_.catalog.QueuedJobs(count);
  if (!queued.ok()) return NoteFailure("catalog_unreadable", "", queued.status());
  for (const JobRecord& job : *queued) Launch(job);
}

bool Scheduler::BackoffIsOver(const JobRecord& job) const {
  const absl::Duration left = job.not_before - env_.now();
  // More than any backoff is left only if the clock was set back meanwhile.
  return left <= absl::ZeroDuration() || left > options_.max_backoff;
}

void Scheduler::Launch(const JobRecord& job) {
  const absl::Status status = starter_.Start(job);
  // ABORTED: a client changed the job meanwhile.
  if (status.ok() || absl::IsAborted(status)) return;
  absl::StrAppend(&launch_failures_, FailureText("launch_failed", job.id, status));
  next_launch_ = env_.uptime() + kLaunchRetry;
}

void Scheduler::NoteFailure(absl::string_view event, absl::string_view job_id,
                            const absl::Status& status) {
  absl::StrAppend(&failures_, FailureText(event, job_id, status));
}

bool Scheduler::Draining() const {
  absl::MutexLock lock(&mu_);
  return draining_;
}

void Scheduler::BeginDrain() {
  absl::MutexLock lock(&mu_);
  draining_ = true;
}

void Scheduler::SetDrain(Drain drain) {
  absl::MutexLock lock(&mu_);
  drain_ = drain;
}

bool Scheduler::AwaitDrained(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  const auto known = [this]()
                         ABSL_SHARED_LOCKS_REQUIRED(mu_) { return drain_ != Drain::kUnderWay; };
  mu_.AwaitWithTimeout(absl::Condition(&known), timeout);
  return drain_ == Drain::kDone;
}

}  // namespace lorsa::server

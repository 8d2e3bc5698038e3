#include "server/jobs/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/jobs/attempt_endings.h"
#include "server/jobs/job_changes.h"
#include "server/jobs/job_requests.h"
#include "server/jobs/log_reader.h"
#include "server/jobs/outcome_file.h"
#include "server/model/job_state.h"
#include "server/model/spec_facts.h"

namespace lorsa::server {
namespace {

constexpr int kOverdueAtOnce = 100;
constexpr int kWrapperUnreachable = 255;  // ssh(1): an error of its own
constexpr absl::Duration kLaunchRetry = absl::Seconds(5);

// A shell's, and the dynamic loader's, word for a program that cannot be executed or found.
bool IsNotStarted(const JobRecord& job, const ProcessStatus& process) {
  return job.job.state() == v1::JOB_STATE_STARTING &&
         (process.exit_status == 126 || process.exit_status == 127);
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

// What keeps the job from being launched, whatever ends.
std::optional<Waiting> LaunchObstacle(const v1::Job& job, const JobKinds& kinds,
                                      const std::string& ranks_obstacle) {
  const JobKind* const kind = kinds.Find(job.kind());
  if (kind == nullptr) return Waiting{"JOB_KIND_MISSING", kinds.Missing(job.kind())};
  if (FactsOf(job.resolved_spec()).ranks > 1 && !ranks_obstacle.empty()) {
    return Waiting{"MPIRUN_MISSING", ranks_obstacle};
  }
  std::string obstacle = kind->Obstacle();
  if (obstacle.empty()) return std::nullopt;
  return Waiting{"PROGRAM_MISSING", std::move(obstacle)};
}

std::string FailureText(absl::string_view event, const AttemptKey& attempt,
                        const absl::Status& status) {
  return absl::StrCat("what=", event, " job=", attempt.job_id, " attempt=", attempt.attempt,
                      " error=\"", status.ToString(), "\" ");
}

absl::Duration StepTimeout(const JobRecord& job, const JobOptions& options) {
  const v1::JobPolicy& policy = job.job.policy();
  if (!policy.has_step_timeout()) return options.step_timeout;
  return absl::Seconds(policy.step_timeout().seconds());
}

}  // namespace

Scheduler::Scheduler(const JobOptions& options, const JobEnvironment& environment,
                     LiveAttempts& live)
    : options_(options),
      env_(environment),
      live_(live),
      starter_(options, environment),
      queue_(options.capacity, {}) {}

void Scheduler::Poll() {
  failures_.clear();
  TendAndLaunch();
  condition_.Note(failures_ + launch_failures_);
}

void Scheduler::TendAndLaunch() {
  const bool draining = Draining();
  const absl::StatusOr<std::vector<JobRecord>> active = ReadActive(draining);
  if (!active.ok()) {
    NoteUnreadable(active.status());
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

absl::Status Scheduler::EndOverdue() {
  LORSA_ASSIGN_OR_RETURN(const std::vector<JobRecord> overdue,
                         env_.catalog.OverdueJobs(env_.now(), kOverdueAtOnce));
  for (const JobRecord& job : overdue) {
    const absl::Status ended = CommitChange(env_, job.id, DeadlineDecision(env_.now())).status();
    // ABORTED: it ended otherwise meanwhile.
    if (ended.ok() || absl::IsAborted(ended)) continue;
    NoteFailure("deadline_not_recorded", {job.id, job.job.attempt()}, ended);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<JobRecord>> Scheduler::ReadActive(bool draining) {
  // Nobody can record then what becomes of the workers: they go on without this server.
  if (draining) {
    LORSA_RETURN_IF_ERROR(env_.catalog.CheckReadable());
    LORSA_RETURN_IF_ERROR(env_.catalog.CheckWritable());
  }
  LORSA_RETURN_IF_ERROR(EndOverdue());
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
  if (env_.is_deaf()) live_.Excuse(attempt, now);
  const LastSigns last = live_.Observe(attempt, now);
  if (job.worker.pid != 0) {
    const ProcessStatus process = env_.launcher.Check(job.worker);
    if (!process.alive) {
      EndDeadWorker(job, attempt, process);
      return true;
    }
  }
  Loss loss;
  if (job.job.state() == v1::JOB_STATE_CANCELLING &&
      now >= live_.KillTime(attempt, now + options_.cancel_grace)) {
    loss.cause = "it was killed after its time to leave";
  } else if (now - last.heard > options_.silence_timeout) {
    loss.cause = absl::StrCat("it was silent for ", absl::FormatDuration(options_.silence_timeout));
  } else if (now - last.progressed > StepTimeout(job, options_)) {
    loss.reason = "STUCK";
    loss.cause =
        absl::StrCat("it made no progress for ", absl::FormatDuration(StepTimeout(job, options_)));
  } else {
    return false;
  }
  Kill(job);
  Lose(attempt, std::move(loss));
  return true;
}

void Scheduler::EndDeadWorker(const JobRecord& job, const AttemptKey& attempt,
                              const ProcessStatus& process) {
  const absl::StatusOr<v1::WorkerOutcome> outcome =
      ReadOutcome(env_.fs, env_.layout.OutcomeFile(attempt.job_id, attempt.attempt));
  if (!outcome.ok()) {
    if (!absl::IsNotFound(outcome.status())) {
      NoteFailure("outcome_unreadable", attempt, outcome.status());
    }
    Loss loss{.cause = process.ending.empty() ? "its process is gone"
                                              : absl::StrCat("its process ", process.ending)};
    if (process.out_of_memory) loss.reason = "OUT_OF_MEMORY";
    loss.unreachable =
        !options_.worker_endpoint.empty() && process.exit_status == kWrapperUnreachable;
    loss.not_started = IsNotStarted(job, process);
    if (loss.not_started) HoldLaunches(absl::StrCat("of ", job.job.name(), ", ", loss.cause));
    return Lose(attempt, std::move(loss));
  }
  const absl::StatusOr<JobRecord> changed = CommitChange(
      env_, job.id, OutcomeDecision(attempt.attempt, *outcome, EndOf(attempt), options_));
  if (!changed.ok()) return NoteFailure("outcome_not_recorded", attempt, changed.status());
  live_.End(attempt, StaleAttempt(attempt));
}

void Scheduler::Kill(const JobRecord& job) {
  if (job.worker.pid != 0) env_.launcher.Kill(job.worker);
}

AttemptEnd Scheduler::EndOf(const AttemptKey& attempt) const {
  return {.time = env_.now(),
          .log_tail = LogTail(env_.fs, env_.layout.LogFile(attempt.job_id, attempt.attempt))};
}

void Scheduler::Lose(const AttemptKey& attempt, Loss loss) {
  loss.end = EndOf(attempt);
  const absl::StatusOr<JobRecord> changed =
      CommitChange(env_, attempt.job_id, LossDecision(attempt.attempt, loss, options_));
  // The next Poll tries again, unless something else ended the attempt first.
  if (!changed.ok()) return NoteFailure("loss_not_recorded", attempt, changed.status());
  live_.End(attempt, StaleAttempt(attempt));
}

void Scheduler::ReturnToQueue(const JobRecord& job, const AttemptKey& attempt) {
  const absl::StatusOr<JobRecord> changed = CommitChange(env_, job.id, DrainDecision(attempt));
  if (!changed.ok()) return NoteFailure("drain_not_recorded", attempt, changed.status());
  Kill(job);
  live_.End(attempt, StaleAttempt(attempt));
}

void Scheduler::LaunchWaiting(const std::vector<JobRecord>& active) {
  JobQueue queue(options_.capacity, active,
                 [kinds = &env_.kinds, ranks_obstacle = env_.launcher.RanksObstacle()](
                     const v1::Job& job) { return LaunchObstacle(job, *kinds, ranks_obstacle); });
  // As far as a job that waits, however many before it can never start.
  const absl::Status read =
      env_.catalog.VisitQueuedJobs([&queue](const JobRecord& job) { return queue.Add(job); });
  if (!read.ok()) return NoteUnreadable(read);
  Launch(active, queue);
  Publish(queue);
}

void Scheduler::Launch(const std::vector<JobRecord>& active, const JobQueue& queue) {
  const std::string obstacle = env_.launch_obstacle();
  held_back_.Note(obstacle.empty() ? "" : absl::StrCat("reason=\"", obstacle, "\""));
  if (!obstacle.empty()) {
    held_back_by_ = {"SERVER_CONDITION", obstacle};
    return;
  }
  if (env_.uptime() < next_launch_) return;
  launch_failures_.clear();
  held_back_by_ = {};
  std::vector<JobRecord> starting;
  for (const JobRecord& job : active) {
    if (job.job.state() != v1::JOB_STATE_RECOVERING || !BackoffIsOver(job)) continue;
    if (!queue.PassedOver(job.job).has_value()) starting.push_back(job);
  }
  starting.insert(starting.end(), queue.starting().begin(), queue.starting().end());
  for (const JobRecord& job : starting) {
    if (!Launch(job)) return;
  }
}

void Scheduler::Publish(const JobQueue& queue) {
  absl::MutexLock lock(&mu_);
  queue_ = queue;
  queue_held_back_by_ = held_back_by_;
}

Waiting Scheduler::WaitingOf(const v1::Job& job) const {
  absl::MutexLock lock(&mu_);
  if (draining_) return {"DRAIN", "the server is being stopped; it starts with the next one"};
  if (!queue_held_back_by_.reason.empty()) return queue_held_back_by_;
  return queue_.WaitingOf(job);
}

bool Scheduler::BackoffIsOver(const JobRecord& job) const {
  const absl::Duration left = job.not_before - env_.now();
  // More than any backoff is left only if the clock was set back meanwhile.
  return left <= absl::ZeroDuration() || left > options_.max_backoff;
}

bool Scheduler::Launch(const JobRecord& job) {
  const absl::Status status = starter_.Start(job);
  // ABORTED: a client changed the job meanwhile.
  if (status.ok() || absl::IsAborted(status)) return true;
  launch_failures_ =
      absl::StrCat("what=launch_failed job=", job.id, " error=\"", status.ToString(), "\" ");
  HoldLaunches(std::string(status.message()));
  return false;
}

void Scheduler::HoldLaunches(const std::string& problem) {
  const absl::Duration now = env_.uptime();
  const bool is_new = now - next_launch_ > options_.max_backoff;
  launch_pause_ = is_new ? kLaunchRetry : std::min(2 * launch_pause_, options_.max_backoff);
  next_launch_ = now + launch_pause_;
  held_back_by_ = {"LAUNCH_FAILED", problem};
}

void Scheduler::NoteFailure(absl::string_view event, const AttemptKey& attempt,
                            const absl::Status& status) {
  absl::StrAppend(&failures_, FailureText(event, attempt, status));
}

void Scheduler::NoteUnreadable(const absl::Status& status) {
  absl::StrAppend(&failures_, "what=catalog_failed error=\"", status.ToString(), "\" ");
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
  drain_changed_.NotifyAll();
}

bool Scheduler::AwaitDrained(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  const auto known = [this]()
                         ABSL_SHARED_LOCKS_REQUIRED(mu_) { return drain_ != Drain::kUnderWay; };
  drain_changed_.AwaitFor(mu_, timeout, known);
  return drain_ == Drain::kDone;
}

}  // namespace lorsa::server

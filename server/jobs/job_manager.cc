#include "server/jobs/job_manager.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/jobs/attempt_endings.h"
#include "server/jobs/job_changes.h"
#include "server/jobs/job_state.h"
#include "server/jobs/live_attempts.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/worker_sessions.h"
#include "server/rpc/errors.h"

namespace lorsa::server {
namespace {

absl::Status WrongState(const JobRecord& job, absl::string_view remedy) {
  const std::string state(JobStateName(job.job.state()));
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat("job ", job.id, " is ", state, "; ", remedy)),
      "WRONG_JOB_STATE", {{"job", job.id}, {"state", state}});
}

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

// ABORTED if the job is CANCELLING already: there is nothing to change.
absl::StatusOr<JobChange> CancelDecision(const JobRecord& job) {
  const v1::JobState state = job.job.state();
  if (IsFinal(state)) return WrongState(job, "it has ended and cannot be cancelled");
  if (state == v1::JOB_STATE_CANCELLING) return absl::AbortedError("CANCELLING already");
  return JobChange{.state = HasWorker(state) ? v1::JOB_STATE_CANCELLING : v1::JOB_STATE_CANCELLED,
                   .reason = "CANCEL_REQUESTED"};
}

}  // namespace

JobManager::JobManager(const JobOptions& options, const JobEnvironment& environment)
    : options_(options),
      env_(environment),
      live_(std::make_unique<LiveAttempts>()),
      sessions_(std::make_unique<WorkerSessions>(options, environment, *live_, [this] { Poke(); })),
      scheduler_(std::make_unique<Scheduler>(options, environment, *live_)) {}

JobManager::~JobManager() { Stop(); }

void JobManager::Start() {
  thread_ = std::thread([this] { PollUntilStopped(); });
}

void JobManager::PollUntilStopped() {
  while (true) {
    Poll();
    absl::MutexLock lock(&mu_);
    const auto due = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return stopping_ || poked_; };
    mu_.AwaitWithTimeout(absl::Condition(&due), options_.poll_interval);
    if (stopping_) return;
    poked_ = false;
  }
}

void JobManager::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  live_->EndAll(absl::UnavailableError("the server is shutting down; connect again"));
}

void JobManager::Poke() {
  absl::MutexLock lock(&mu_);
  poked_ = true;
}

void JobManager::Poll() { scheduler_->Poll(); }

void JobManager::BeginDrain() {
  scheduler_->BeginDrain();
  Poke();
}

bool JobManager::AwaitDrained(absl::Duration timeout) { return scheduler_->AwaitDrained(timeout); }

v1::Job JobManager::WithLiveFields(const JobRecord& record) const {
  v1::Job job = record.job;
  if (!HasWorker(job.state())) return job;
  if (const auto progress = live_->Progress(record.id)) *job.mutable_progress() = *progress;
  job.set_waiting_for(live_->WaitingFor(record.id));
  return job;
}

absl::StatusOr<v1::Job> JobManager::CreateJob(const NewJob& job) {
  LORSA_ASSIGN_OR_RETURN(const JobRecord record, env_.catalog.CreateJob(job, env_.now()));
  Poke();
  return WithLiveFields(record);
}

absl::StatusOr<v1::Job> JobManager::GetJob(absl::string_view id) const {
  LORSA_ASSIGN_OR_RETURN(const JobRecord record, env_.catalog.GetJob(id));
  return WithLiveFields(record);
}

absl::StatusOr<std::vector<v1::Job>> JobManager::ListJobs(const JobFilter& filter) const {
  LORSA_ASSIGN_OR_RETURN(const std::vector<JobRecord> records, env_.catalog.ListJobs(filter));
  std::vector<v1::Job> jobs;
  jobs.reserve(records.size());
  for (const JobRecord& record : records) jobs.push_back(WithLiveFields(record));
  return jobs;
}

absl::StatusOr<v1::Job> JobManager::Change(absl::string_view id, const JobDecision& decision) {
  LORSA_ASSIGN_OR_RETURN(const JobRecord record, CommitChange(env_, id, decision));
  Poke();  // The worker must hear of it, or a slot is free.
  return WithLiveFields(record);
}

absl::StatusOr<v1::Job> JobManager::PauseJob(absl::string_view id) {
  return Change(id,
                PauseDecision("PAUSE_REQUESTED", "the worker was asked to checkpoint and stop"));
}

absl::StatusOr<v1::Job> JobManager::PauseForQuarantine(absl::string_view id,
                                                       absl::string_view problem) {
  return Change(id, PauseDecision(kSetQuarantined, std::string(problem)));
}

absl::StatusOr<v1::Job> JobManager::ResumeJob(absl::string_view id) {
  return Change(id, ResumeDecision);
}

absl::StatusOr<v1::Job> JobManager::CancelJob(absl::string_view id) {
  absl::StatusOr<v1::Job> job = Change(id, CancelDecision);
  return absl::IsAborted(job.status()) ? GetJob(id) : job;
}

std::optional<v1::JobProgress> JobManager::Progress(absl::string_view id) const {
  return live_->Progress(id);
}

}  // namespace lorsa::server

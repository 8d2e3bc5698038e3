#include "server/jobs/job_manager.h"

#include <utility>

#include "base/error_details.h"
#include "base/status_macros.h"
#include "server/jobs/attempt_endings.h"
#include "server/jobs/data_adoption.h"
#include "server/jobs/job_changes.h"
#include "server/jobs/job_creator.h"
#include "server/jobs/job_remover.h"
#include "server/jobs/job_requests.h"
#include "server/jobs/live_attempts.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/staging.h"
#include "server/jobs/worker_sessions.h"
#include "server/model/job_state.h"

namespace lorsa::server {
namespace {

constexpr int kMaxSweepJobs = 256;  // as in sweep.proto

// The catalog refuses a job whose set has changed without a reason; what else refuses one gives its
// own.
template <typename T>
absl::StatusOr<T> WithSetReason(absl::StatusOr<T> result) {
  if (!absl::IsFailedPrecondition(result.status())) return result;
  return WithReason(result.status(), kSetChanged);
}

}  // namespace

JobManager::JobManager(const JobOptions& options, const JobEnvironment& environment)
    : options_(options),
      env_(environment),
      live_(std::make_unique<LiveAttempts>()),
      sessions_(std::make_unique<WorkerSessions>(options, environment, *live_, [this] { Poke(); })),
      scheduler_(std::make_unique<Scheduler>(options, environment, *live_)),
      remover_(std::make_unique<JobRemover>(environment)),
      creator_(std::make_unique<JobCreator>(environment)),
      polling_(options.poll_interval,
               [this] {
                 Poll();
                 return false;
               }),
      tidying_(options.tidy_interval, [this] { return Tidy(); }) {}

JobManager::~JobManager() { Stop(); }

absl::Status JobManager::AdoptData(absl::FunctionRef<absl::Status()> adopt_sets) {
  LORSA_ASSIGN_OR_RETURN(const std::set<std::string> left,
                         DataAdoption(env_, options_, adopt_sets).Run());
  TidyUpAfterEarlierServer(left);
  return absl::OkStatus();
}

void JobManager::Start() {
  polling_.Start();
  tidying_.Start();
}

// The server before may have ended between any two steps.
void JobManager::TidyUpAfterEarlierServer(const std::set<std::string>& left) {
  const absl::StatusOr<std::vector<std::string>> ids = env_.fs.List(env_.layout.JobsFolder());
  if (!ids.ok()) return;  // No job has run yet, or the disk fails and is heard of elsewhere.
  for (const std::string& id : *ids) {
    if (left.contains(id)) continue;
    const absl::StatusOr<JobRecord> job = env_.catalog.GetJob(id);
    if (!job.ok() || HasWorker(job->job.state())) continue;
    if (IsFinal(job->job.state())) RemoveStaging(env_, {id, job->job.attempt()});
    sessions_->publisher().Reconcile(id);
  }
}

void JobManager::Stop() {
  polling_.Stop();
  tidying_.Stop();
  live_->EndAll(absl::UnavailableError("the server is shutting down; connect again"));
}

void JobManager::Poll() { scheduler_->Poll(); }

bool JobManager::Tidy() { return remover_->Work(); }

void JobManager::BeginDrain() {
  scheduler_->BeginDrain();
  Poke();
}

bool JobManager::AwaitDrained(absl::Duration timeout) { return scheduler_->AwaitDrained(timeout); }

v1::Job JobManager::WithLiveFields(const JobRecord& record) const {
  v1::Job job = record.job;
  if (job.state() == v1::JOB_STATE_QUEUED) {
    Waiting waiting = scheduler_->WaitingOf(job);
    job.set_waiting_for(std::move(waiting.reason));
    job.set_waiting_message(std::move(waiting.message));
  }
  if (!HasWorker(job.state())) return job;
  if (const auto progress = live_->Progress(record.id)) *job.mutable_progress() = *progress;
  job.set_waiting_for(live_->WaitingFor(record.id));
  return job;
}

absl::StatusOr<v1::Job> JobManager::CreateJob(const NewJob& job) {
  absl::MutexLock lock(&creation_mu_);
  LORSA_ASSIGN_OR_RETURN(const JobRecord record, WithSetReason(creator_->CreateJob(job)));
  Poke();
  return WithLiveFields(record);
}

absl::StatusOr<v1::Checkpoint> JobManager::ImportCheckpoint(const NewJob& job,
                                                            const v1::Checkpoint& checkpoint,
                                                            const std::string& folder) {
  absl::MutexLock lock(&creation_mu_);
  return creator_->ImportCheckpoint(job, checkpoint, folder);
}

absl::StatusOr<std::optional<v1::Job>> JobManager::FindRepeatedJob(
    absl::string_view id, const RequestIdentity& request) const {
  LORSA_ASSIGN_OR_RETURN(const std::optional<JobRecord> record,
                         env_.catalog.FindRepeatedJob(id, request));
  if (!record.has_value()) return std::nullopt;
  return WithLiveFields(*record);
}

absl::StatusOr<v1::Job> JobManager::GetJob(absl::string_view id) const {
  LORSA_ASSIGN_OR_RETURN(const JobRecord record, env_.catalog.GetJob(id));
  return WithLiveFields(record);
}

absl::StatusOr<std::vector<StoredJob>> JobManager::ListJobs(const JobFilter& filter) const {
  LORSA_ASSIGN_OR_RETURN(std::vector<StoredJob> jobs, env_.catalog.ListJobs(filter));
  for (StoredJob& job : jobs) job.record.job = WithLiveFields(job.record);
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
  return WithSetReason(Change(id, ResumeDecision));
}

absl::StatusOr<v1::Job> JobManager::CancelJob(absl::string_view id) {
  absl::StatusOr<v1::Job> job = Change(id, CancelDecision);
  return absl::IsAborted(job.status()) ? GetJob(id) : job;
}

absl::StatusOr<v1::Job> JobManager::UpdateJob(absl::string_view id, const v1::JobPolicy& policy,
                                              std::vector<std::string> fields) {
  LORSA_ASSIGN_OR_RETURN(v1::Job job, Change(id, UpdateDecision(policy, std::move(fields))));
  Poke();  // Another job may be first now.
  return job;
}

absl::StatusOr<v1::Job> JobManager::RetryJob(absl::string_view id) {
  return WithSetReason(Change(id, RetryDecision(env_.now())));
}

absl::Status JobManager::DeleteJob(absl::string_view id, bool even_if_pinned) {
  LORSA_RETURN_IF_ERROR(remover_->Delete(id, even_if_pinned));
  tidying_.Poke();
  return absl::OkStatus();
}

absl::StatusOr<v1::Sweep> JobManager::CreateSweep(const NewSweep& sweep) {
  absl::MutexLock lock(&creation_mu_);
  LORSA_ASSIGN_OR_RETURN(v1::Sweep created, WithSetReason(creator_->CreateSweep(sweep)));
  Poke();
  return created;
}

absl::StatusOr<v1::Sweep> JobManager::CancelSweep(absl::string_view id) {
  LORSA_RETURN_IF_ERROR(env_.catalog.GetSweep(id).status());
  LORSA_ASSIGN_OR_RETURN(
      const std::vector<StoredJob> jobs,
      env_.catalog.ListJobs({.sweep_id = std::string(id), .limit = kMaxSweepJobs}));
  for (const StoredJob& job : jobs) {
    if (IsFinal(job.record.job.state())) continue;
    const absl::Status cancelled = CancelJob(job.record.id).status();
    // One that has ended or was deleted meanwhile needs no more.
    if (cancelled.ok() || absl::IsFailedPrecondition(cancelled) || absl::IsNotFound(cancelled)) {
      continue;
    }
    return cancelled;
  }
  return env_.catalog.GetSweep(id);
}

std::optional<v1::JobProgress> JobManager::Progress(absl::string_view id) const {
  return live_->Progress(id);
}

}  // namespace lorsa::server

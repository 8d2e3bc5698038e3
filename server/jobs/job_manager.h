// Runs jobs: what clients ask of them, the queue, the attempts' processes and their workers.
//
// Truth is in the catalog; this folder remembers only what is worthless after a restart (the
// connections, the newest progress, deadlines). Life of an attempt:
//   1. What earlier attempts left staged is removed; the job's file (job_file.h), the attempt's
//      folder and its bootstrap file (with a fresh token) are written.
//   2. QUEUED | RECOVERING → STARTING commits, with the attempt's number and its token's sha256.
//   3. The worker is spawned, and
//   4. its identity is stored.
//   5. The worker says hello with the token: → RUNNING, and is welcomed.
//   6. It reports metrics and checkpoints; each is checked against the current attempt in the
//      transaction that stores it.
//   7. Its outcome ends the attempt. If the process is gone, the outcome file it left counts; if
//      there is none, the worker was lost: → RECOVERING, and 1 again after a backoff.
// A crash between any two steps leaves a state from which Poll goes on: STARTING without a live
// process is a lost worker; one spawned between 3 and 4 says who it is in 5, or is fenced off by
// the next attempt's number.
#ifndef LORSA_SERVER_JOBS_JOB_MANAGER_H_
#define LORSA_SERVER_JOBS_JOB_MANAGER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/periodic_thread.h"
#include "lorsa/v1/job.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"

namespace lorsa::server {

class JobCreator;
class JobRemover;
class LiveAttempts;
class Scheduler;
class WorkerSessions;

// Methods block on the catalog and may be called from any thread that may block.
class JobManager {
 public:
  JobManager(const JobOptions& options, const JobEnvironment& environment);
  // Stops as Stop() does.
  ~JobManager();

  // Brings the catalog and the data folder together (data_adoption.h) and tidies up after the
  // server before this one. Comes first: nothing of any job is on its way, and nobody is served
  // yet. With an error nothing was removed, and the server must not start. `adopt_sets` is called
  // before jobs are looked at if the catalog is older than the data; it returns an error only for
  // what may pass.
  absl::Status AdoptData(absl::FunctionRef<absl::Status()> adopt_sets);
  // Starts the threads that poll and tidy. Jobs that were running when the last server ended are
  // picked up: a live worker has silence_timeout to come back, a dead one's outcome file is read.
  void Start();
  // Stops both and closes the workers' connections with UNAVAILABLE; workers go on and connect
  // to the next server. Idempotent.
  void Stop();

  // No attempt is launched from now on; running workers are told to checkpoint and leave, and their
  // jobs return to QUEUED with reason DRAIN.
  void BeginDrain();
  // Waits until no job has a worker. False if some still had one after `timeout`: they go on, and
  // the next server hears of them.
  bool AwaitDrained(absl::Duration timeout);

  // One look at processes, deadlines and the queue: what the thread does every poll_interval. For
  // tests, instead of Start(). One caller at a time.
  void Poll();
  // One step of removing deleted and expired jobs, as above: what a second thread does. True if
  // there is more to do at once.
  bool Tidy();

  // --- For clients. `id` is the {job} of jobs/{job}. ---

  // As JobCreator::CreateJob.
  absl::StatusOr<v1::Job> CreateJob(const NewJob& job);
  // As Catalog::FindRepeatedJob.
  absl::StatusOr<std::optional<v1::Job>> FindRepeatedJob(absl::string_view id,
                                                         const RequestIdentity& request) const;
  // As JobCreator::ImportCheckpoint.
  absl::StatusOr<v1::Checkpoint> ImportCheckpoint(const NewJob& job,
                                                  const v1::Checkpoint& checkpoint,
                                                  const std::string& folder);
  absl::StatusOr<v1::Job> GetJob(absl::string_view id) const;
  absl::StatusOr<std::vector<StoredJob>> ListJobs(const JobFilter& filter) const;
  // RUNNING → PAUSING; FAILED_PRECONDITION in another state.
  absl::StatusOr<v1::Job> PauseJob(absl::string_view id);
  // The same, because the set that the job trains on was found damaged: `problem` says how. However
  // its worker leaves then, the job ends up PAUSED and shows it.
  absl::StatusOr<v1::Job> PauseForQuarantine(absl::string_view id, absl::string_view problem);
  // PAUSED → QUEUED, behind the others; FAILED_PRECONDITION in another state, or (SET_CHANGED) if
  // its set is gone or has other contents.
  absl::StatusOr<v1::Job> ResumeJob(absl::string_view id);
  // → CANCELLING, or CANCELLED at once where there is no worker. Changes nothing in a job that is
  // CANCELLING; FAILED_PRECONDITION for one that has ended.
  absl::StatusOr<v1::Job> CancelJob(absl::string_view id);
  // FAILED → QUEUED, behind the others; FAILED_PRECONDITION as ResumeJob.
  absl::StatusOr<v1::Job> RetryJob(absl::string_view id);
  // As UpdateDecision in job_requests.h.
  absl::StatusOr<v1::Job> UpdateJob(absl::string_view id, const v1::JobPolicy& policy,
                                    std::vector<std::string> fields);
  // As CheckDeletable in job_requests.h; the job is gone when this returns OK.
  absl::Status DeleteJob(absl::string_view id, bool even_if_pinned);

  // As JobCreator::CreateSweep.
  absl::StatusOr<v1::Sweep> CreateSweep(const NewSweep& sweep);
  // Cancels each job of the sweep that has not ended; the sweep after it.
  absl::StatusOr<v1::Sweep> CancelSweep(absl::string_view id);

  // What a job may take here; see job_queue.h.
  const JobCapacity& capacity() const { return options_.capacity; }

  // Newest progress of a running job; empty before the first, and after the end.
  std::optional<v1::JobProgress> Progress(absl::string_view id) const;

  // For the workers' RPC.
  WorkerSessions& sessions() { return *sessions_; }

 private:
  // Leaves the jobs in `left` as they are.
  void TidyUpAfterEarlierServer(const std::set<std::string>& left);
  // Makes the thread poll now.
  void Poke() { polling_.Poke(); }
  // The stored job with what is known of it only in memory.
  v1::Job WithLiveFields(const JobRecord& record) const;
  absl::StatusOr<v1::Job> Change(absl::string_view id, const JobDecision& decision);

  const JobOptions options_;
  const JobEnvironment env_;
  const std::unique_ptr<LiveAttempts> live_;
  const std::unique_ptr<WorkerSessions> sessions_;
  const std::unique_ptr<Scheduler> scheduler_;
  const std::unique_ptr<JobRemover> remover_;
  // Jobs are created one at a time: none takes the folder of another in the making.
  absl::Mutex creation_mu_;
  const std::unique_ptr<JobCreator> creator_ ABSL_PT_GUARDED_BY(creation_mu_);
  PeriodicThread polling_;
  PeriodicThread tidying_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_MANAGER_H_

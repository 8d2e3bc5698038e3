// Runs jobs: what clients ask of them, the queue, the attempts' processes and their workers.
//
// Truth is in the catalog; this folder remembers only what is worthless after a restart (the
// connections, the newest progress, deadlines). Life of an attempt:
//   1. What earlier attempts left staged is removed; its folder and bootstrap file (with a fresh
//      token) are written.
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
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "lorsa/v1/job.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"

namespace lorsa::server {

class LiveAttempts;
class Scheduler;
class WorkerSessions;

// Methods block on the catalog and may be called from any thread that may block.
class JobManager {
 public:
  JobManager(const JobOptions& options, const JobEnvironment& environment);
  // Stops as Stop() does.
  ~JobManager();

  // Starts the thread that polls. Jobs that were running when the last server ended are picked up:
  // a live worker has silence_timeout to come back, a dead one's outcome file is read.
  void Start();
  // Stops polling and closes the workers' connections with UNAVAILABLE; workers go on and connect
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

  // --- For clients. `id` is the {job} of jobs/{job}. ---

  // As Catalog::CreateJob.
  absl::StatusOr<v1::Job> CreateJob(const NewJob& job);
  absl::StatusOr<v1::Job> GetJob(absl::string_view id) const;
  absl::StatusOr<std::vector<v1::Job>> ListJobs(const JobFilter& filter) const;
  // RUNNING → PAUSING; FAILED_PRECONDITION in another state.
  absl::StatusOr<v1::Job> PauseJob(absl::string_view id);
  // The same, because the set that the job trains on was found damaged: `problem` says how. However
  // its worker leaves then, the job ends up PAUSED and shows it.
  absl::StatusOr<v1::Job> PauseForQuarantine(absl::string_view id, absl::string_view problem);
  // PAUSED → QUEUED, behind the others; FAILED_PRECONDITION in another state.
  absl::StatusOr<v1::Job> ResumeJob(absl::string_view id);
  // → CANCELLING, or CANCELLED at once where there is no worker. Changes nothing in a job that is
  // CANCELLING; FAILED_PRECONDITION for one that has ended.
  absl::StatusOr<v1::Job> CancelJob(absl::string_view id);

  // Newest progress of a running job; empty before the first, and after the end.
  std::optional<v1::JobProgress> Progress(absl::string_view id) const;

  // For the workers' RPC.
  WorkerSessions& sessions() { return *sessions_; }

 private:
  void PollUntilStopped();
  // Makes the thread poll now.
  void Poke();
  // The stored job with what is known of it only in memory.
  v1::Job WithLiveFields(const JobRecord& record) const;
  absl::StatusOr<v1::Job> Change(absl::string_view id, const JobDecision& decision);

  const JobOptions options_;
  const JobEnvironment env_;
  const std::unique_ptr<LiveAttempts> live_;
  const std::unique_ptr<WorkerSessions> sessions_;
  const std::unique_ptr<Scheduler> scheduler_;

  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool poked_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_MANAGER_H_

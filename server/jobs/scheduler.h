// Looks after the queue and the attempts' processes: launches, bounds, losses, the drain.
#ifndef LORSA_SERVER_JOBS_SCHEDULER_H_
#define LORSA_SERVER_JOBS_SCHEDULER_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "server/catalog/catalog.h"
#include "server/jobs/attempt_endings.h"
#include "server/jobs/attempt_starter.h"
#include "server/jobs/condition_log.h"
#include "server/jobs/job_environment.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/live_attempts.h"

namespace lorsa::server {

// Level-triggered: each Poll looks at the jobs as the catalog has them and does what their state
// asks for, so nothing depends on having seen a change happen.
class Scheduler {
 public:
  Scheduler(const JobOptions& options, const JobEnvironment& environment, LiveAttempts& live);

  // One caller at a time.
  void Poll();

  // --- From any thread. ---

  // Why a QUEUED job has not started.
  Waiting WaitingOf(const v1::Job& job) const;
  void BeginDrain();
  // True once a Poll after BeginDrain has found no job with a worker. False after `timeout`, and as
  // soon as such a Poll could not read or write the catalog: nobody can record then who left.
  bool AwaitDrained(absl::Duration timeout);

 private:
  void TendAndLaunch();
  // The jobs that hold a slot, once those whose deadline is over were told to end.
  absl::StatusOr<std::vector<JobRecord>> ReadActive(bool draining);
  absl::Status EndOverdue();
  void Tend(const JobRecord& job);
  // True if the attempt was ended.
  bool EndIfOver(const JobRecord& job, const AttemptKey& attempt);
  void EndDeadWorker(const JobRecord& job, const AttemptKey& attempt, const ProcessStatus& process);
  void Kill(const JobRecord& job);
  AttemptEnd EndOf(const AttemptKey& attempt) const;
  void Lose(const AttemptKey& attempt, Loss loss);
  // The worker has not said hello yet and need not: back to the queue.
  void ReturnToQueue(const JobRecord& job, const AttemptKey& attempt);
  void LaunchWaiting(const std::vector<JobRecord>& active);
  bool BackoffIsOver(const JobRecord& job) const;
  // What may start now, unless something holds launches back.
  void Launch(const std::vector<JobRecord>& active, const JobQueue& queue);
  // False if nothing more is to be launched now.
  bool Launch(const JobRecord& job);
  // The next launch is tried after a pause, which grows while `problem` lasts.
  void HoldLaunches(const std::string& problem);
  // Something is as it was and the next Poll tries again.
  void NoteFailure(absl::string_view event, const AttemptKey& attempt, const absl::Status& status);
  void NoteUnreadable(const absl::Status& status);
  bool Draining() const;
  // What is told of QUEUED jobs from now on.
  void Publish(const JobQueue& queue);
  // What a Poll while draining came to know.
  enum class Drain { kUnderWay, kDone, kUnknown };
  void SetDrain(Drain drain);

  const JobOptions options_;
  const JobEnvironment env_;
  LiveAttempts& live_;
  AttemptStarter starter_;
  // After a failed launch (a full disk) the next waits until then, and after one more for longer.
  absl::Duration next_launch_ = -absl::InfiniteDuration();
  absl::Duration launch_pause_;
  // Of this Poll; of the newest try to launch; both key=value pairs, empty if all went well.
  std::string failures_;
  std::string launch_failures_;
  Waiting held_back_by_;  // what keeps all jobs from being launched, if anything does
  ConditionLog condition_{"poll_failed"};
  ConditionLog held_back_{"launches_held_back"};

  mutable absl::Mutex mu_;
  // As of the last Poll, for WaitingOf.
  JobQueue queue_ ABSL_GUARDED_BY(mu_);
  Waiting queue_held_back_by_ ABSL_GUARDED_BY(mu_);
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  Drain drain_ ABSL_GUARDED_BY(mu_) = Drain::kUnderWay;
  TimedCondition drain_changed_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_SCHEDULER_H_

// Wakes those who follow a job. A watch carries no data: the woken reader catches up from the
// catalog, so a slow one loses no event and costs no memory.
#ifndef LORSA_SERVER_JOBS_JOB_WATCH_H_
#define LORSA_SERVER_JOBS_JOB_WATCH_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace lorsa::server {

// What happened to a job, as bits.
enum JobSignal : unsigned {
  kJobEvent = 1,     // a new event: state, checkpoint, condition
  kJobMetrics = 2,   // new metric points
  kJobProgress = 4,  // newer progress
  kJobTick = 8,      // about twice a second while it has a worker: its log may have grown
};

// Thread-safe.
class JobWatchHub {
 public:
  // Ends when destroyed: after that `wake` does not run and is not running, so the destructor must
  // not be called from `wake` nor under a lock that `wake` takes. The hub outlives it.
  class Subscription {
   public:
    ~Subscription();
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

   private:
    friend class JobWatchHub;
    struct Entry;
    Subscription(JobWatchHub& hub, std::shared_ptr<Entry> entry);
    JobWatchHub& hub_;
    std::shared_ptr<Entry> entry_;
  };

  // Calls `wake` after each of the `signals` (JobSignal bits) of the job, from any thread. `wake`
  // must not block.
  std::unique_ptr<Subscription> Subscribe(absl::string_view job_id, unsigned signals,
                                          std::function<void()> wake);
  void Notify(absl::string_view job_id, unsigned signals);

 private:
  absl::Mutex mu_;
  std::multimap<std::string, std::shared_ptr<Subscription::Entry>, std::less<>> entries_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_WATCH_H_

// A thread that does a small piece of work again and again.
#ifndef LORSA_BASE_PERIODIC_THREAD_H_
#define LORSA_BASE_PERIODIC_THREAD_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"

namespace lorsa {

// Thread-safe.
class PeriodicThread {
 public:
  // Makes the thread, so that Start cannot fail; std::system_error if the system gives none.
  // `work` returns true if it has more to do at once. It runs on the thread alone.
  PeriodicThread(absl::Duration interval, std::function<bool()> work);
  ~PeriodicThread() { Stop(); }
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

  // Works for the first time at once.
  void Start();
  // Makes it work now rather than after the interval.
  void Poke();
  // Whether Stop was called: for work that takes long.
  bool stopping() const;
  // Waits for the piece of work under way. Idempotent, but called by one thread at a time.
  void Stop();

 private:
  void Run();
  // Waits until there is work, for `timeout` at most. False if there is none any more.
  bool AwaitWork(absl::Duration timeout);

  const absl::Duration interval_;
  const std::function<bool()> work_;
  mutable absl::Mutex mu_;
  TimedCondition changed_;
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool poked_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace lorsa

#endif  // LORSA_BASE_PERIODIC_THREAD_H_

// The clock for waiting and for measuring. Nobody sets it: a date that is set back prolongs
// nothing.
#ifndef LORSA_BASE_MONOTONIC_CLOCK_H_
#define LORSA_BASE_MONOTONIC_CLOCK_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace lorsa {

// Time since boot. Time in which the machine was suspended does not count.
absl::Duration MonotonicNow();

// Waits under an absl::Mutex, with a timeout on the monotonic clock. The waits of Abseil
// (absl::Mutex::AwaitWithTimeout, absl::CondVar) end by the wall clock in the release that we build
// with: if somebody sets the clock back during a wait, the wait lasts that much longer.
class TimedCondition {
 public:
  // Waits with `mu` released until `done()` is true or `timeout` is over; returns `done()`. `done`
  // is called with `mu` held, at the start and after each NotifyAll.
  template <typename Done>
  bool AwaitFor(absl::Mutex& mu, absl::Duration timeout, Done done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    Held held{mu};
    return changed_.wait_for(held, absl::ToChronoNanoseconds(std::min(timeout, kLongest)), done);
  }

  // Whoever changes what `done` reads calls this afterwards.
  void NotifyAll() { changed_.notify_all(); }

 private:
  static constexpr absl::Duration kLongest = absl::Hours(24 * 365);  // the clock must not overflow

  // A locked absl::Mutex under the names that the standard library uses.
  struct Held {
    absl::Mutex& mu;
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mu.Lock(); }
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mu.Unlock(); }
  };

  std::condition_variable_any changed_;
};

}  // namespace lorsa

#endif  // LORSA_BASE_MONOTONIC_CLOCK_H_

#include "base/monotonic_clock.h"

#include <time.h>

namespace lorsa {

absl::Duration MonotonicNow() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace lorsa

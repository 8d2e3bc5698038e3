// Memory of this process and of the machine, as Linux tells it.
#ifndef LORSA_BASE_MEMORY_USE_H_
#define LORSA_BASE_MEMORY_USE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace lorsa {

struct MemoryUse {
  int64_t resident = 0;   // bytes of this process (VmRSS)
  int64_t peak = 0;       // the most that it ever was (VmHWM)
  int64_t available = 0;  // bytes that it can take yet, before swapping or its control group's end
};

// The least of MemAvailable and of what is left of the limits of the process' control groups, v2
// and v1, up to the root. `root` is where /proc and /sys are found: empty but in tests.
absl::StatusOr<MemoryUse> ReadMemoryUse(const std::string& root = "");

}  // namespace lorsa

#endif  // LORSA_BASE_MEMORY_USE_H_

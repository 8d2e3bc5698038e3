// How many CPUs this process may keep busy.
#ifndef LORSA_BASE_CPU_COUNT_H_
#define LORSA_BASE_CPU_COUNT_H_

#include <string>

namespace lorsa {

// The fewest of the machine's cores, the CPUs of this thread's affinity, and the quota of this
// process' control groups (v2 and v1), a fraction rounded down; at least 1. More threads than the
// quota pays for are stopped by the kernel in the middle of their work, and those that wait for
// them wait too.
// `root` is where /proc and /sys are found: empty but in tests.
int UsableCpus(const std::string& root = "");

}  // namespace lorsa

#endif  // LORSA_BASE_CPU_COUNT_H_

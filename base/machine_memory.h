// What this machine, or the control groups of this process, give to all processes together.
#ifndef LORSA_BASE_MACHINE_MEMORY_H_
#define LORSA_BASE_MACHINE_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace lorsa {

// `root` is where /proc and /sys are found: empty but in tests.

// Bytes that processes may take at most: the machine's, or the least of the groups' limits.
absl::StatusOr<int64_t> ReadMemoryLimit(const std::string& root = "");

// How many processes the kernel has killed so far because memory ran out: of this process' group,
// or of the machine if no group tells. Nothing if that cannot be read.
std::optional<int64_t> CountOutOfMemoryKills(const std::string& root = "");

}  // namespace lorsa

#endif  // LORSA_BASE_MACHINE_MEMORY_H_

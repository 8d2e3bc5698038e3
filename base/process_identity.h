// Who a process is, across restarts of whoever asks: a pid alone is reused by the kernel, so the
// boot and the start time go with it.
#ifndef LORSA_BASE_PROCESS_IDENTITY_H_
#define LORSA_BASE_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace lorsa {

struct ProcessIdentity {
  std::string boot_id;  // /proc/sys/kernel/random/boot_id
  pid_t pid = 0;
  int64_t start_ticks = 0;  // clock ticks since boot, field 22 of /proc/<pid>/stat

  bool operator==(const ProcessIdentity&) const = default;
};

// Of a living process; NOT_FOUND if there is none of that pid, or only a zombie; UNAVAILABLE if
// this process cannot look (it has no descriptor left).
absl::StatusOr<ProcessIdentity> IdentifyProcess(pid_t pid);

// Of the calling process.
absl::StatusOr<ProcessIdentity> IdentifySelf();

// Whether that very process still lives: same boot, pid and start time, and not a zombie.
// UNAVAILABLE if it cannot be known, which says nothing about the process.
absl::StatusOr<bool> IsAlive(const ProcessIdentity& identity);

}  // namespace lorsa

#endif  // LORSA_BASE_PROCESS_IDENTITY_H_

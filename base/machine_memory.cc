#include "base/machine_memory.h"

#include <algorithm>

#include "base/control_groups.h"
#include "base/status_macros.h"

namespace lorsa {

absl::StatusOr<int64_t> ReadMemoryLimit(const std::string& root) {
  LORSA_ASSIGN_OR_RETURN(int64_t limit, ReadKernelBytes(root + "/proc/meminfo", "MemTotal"));
  for (const ControlGroup& group : ControlGroups(root, "memory")) {
    const char* const file = group.is_v2 ? "/memory.max" : "/memory.limit_in_bytes";
    for (const std::string& folder : FoldersOf(group)) {
      limit = std::min(limit, ReadKernelNumber(folder + file).value_or(limit));
    }
  }
  return limit;
}

std::optional<int64_t> CountOutOfMemoryKills(const std::string& root) {
  for (const ControlGroup& g : ControlGroups(root, "memory")) {
    const char* const file = g.is_v2 ? "/memory.events" : "/memory.oom_control";
    // In a container the group's own folder may be what is mounted.
    for (const std::string& folder : {g.mount + g.group, g.mount}) {
      if (const auto count = ReadKernelCount(folder + file, "oom_kill")) return count;
    }
  }
  return ReadKernelCount(root + "/proc/vmstat", "oom_kill");
}

}  // namespace lorsa

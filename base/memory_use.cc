#include "base/memory_use.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/control_groups.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

// What is left in the group and in all above it. Caches that would be given back are not counted as
// used.
int64_t LeftInGroups(const ControlGroup& group) {
  const char* const limit_file = group.is_v2 ? "memory.max" : "memory.limit_in_bytes";
  const char* const usage_file = group.is_v2 ? "memory.current" : "memory.usage_in_bytes";
  int64_t left = std::numeric_limits<int64_t>::max();
  for (const std::string& folder : FoldersOf(group)) {
    const std::optional<int64_t> limit = ReadKernelNumber(absl::StrCat(folder, "/", limit_file));
    const std::optional<int64_t> usage = ReadKernelNumber(absl::StrCat(folder, "/", usage_file));
    if (limit && usage) {
      const std::string stat = ReadKernelFile(folder + "/memory.stat").value_or("");
      int64_t cache = 0;
      for (const absl::string_view line : absl::StrSplit(stat, '\n')) {
        const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
        if (words.size() == 2 && (words[0] == "inactive_file" || words[0] == "active_file")) {
          int64_t bytes = 0;
          if (absl::SimpleAtoi(words[1], &bytes)) cache += bytes;
        }
      }
      left = std::min(left, std::max<int64_t>(*limit - (*usage - std::min(cache, *usage)), 0));
    }
  }
  return left;
}

int64_t LeftOfControlGroups(const std::string& root) {
  int64_t left = std::numeric_limits<int64_t>::max();
  for (const ControlGroup& group : ControlGroups(root, "memory")) {
    left = std::min(left, LeftInGroups(group));
  }
  return left;
}

}  // namespace

absl::StatusOr<MemoryUse> ReadMemoryUse(const std::string& root) {
  MemoryUse use;
  LORSA_ASSIGN_OR_RETURN(use.resident, ReadKernelBytes(root + "/proc/self/status", "VmRSS"));
  LORSA_ASSIGN_OR_RETURN(use.peak, ReadKernelBytes(root + "/proc/self/status", "VmHWM"));
  LORSA_ASSIGN_OR_RETURN(use.available, ReadKernelBytes(root + "/proc/meminfo", "MemAvailable"));
  use.available = std::min(use.available, LeftOfControlGroups(root));
  return use;
}

}  // namespace lorsa

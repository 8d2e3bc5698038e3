#include "base/memory_use.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

// Files of the kernel: small, and without a size that could be asked for.
std::optional<std::string> Read(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Bytes of the line "NAME:  123 kB".
absl::StatusOr<int64_t> Field(const std::string& path, absl::string_view name) {
  const std::optional<std::string> text = Read(path);
  for (const absl::string_view line : absl::StrSplit(text.value_or(""), '\n')) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t kilobytes = 0;
    if (words.size() >= 2 && words[0] == absl::StrCat(name, ":") &&
        absl::SimpleAtoi(words[1], &kilobytes)) {
      return kilobytes * 1024;
    }
  }
  return absl::NotFoundError(absl::StrCat(path, " does not tell ", name));
}

// The number in a file of a control group; none if there is no file or no limit ("max").
std::optional<int64_t> Number(const std::string& path) {
  int64_t value = 0;
  const std::optional<std::string> text = Read(path);
  if (!text || !absl::SimpleAtoi(*text, &value)) return std::nullopt;
  return value;
}

// What is left in `folder` and in all above it. Caches that would be given back are not counted as
// used.
int64_t LeftInGroups(const std::string& mount, std::string group, const char* limit_file,
                     const char* usage_file) {
  int64_t left = std::numeric_limits<int64_t>::max();
  while (true) {
    const std::string folder = mount + group;
    const std::optional<int64_t> limit = Number(absl::StrCat(folder, "/", limit_file));
    const std::optional<int64_t> usage = Number(absl::StrCat(folder, "/", usage_file));
    if (limit && usage) {
      const std::string stat = Read(folder + "/memory.stat").value_or("");
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
    if (group.empty() || group == "/") return left;
    group.resize(group.rfind('/'));
  }
}

int64_t LeftOfControlGroups(const std::string& root) {
  int64_t left = std::numeric_limits<int64_t>::max();
  const std::string groups = Read(root + "/proc/self/cgroup").value_or("");
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::string group(parts[2] == "/" ? "" : parts[2]);
    if (parts[0] == "0") {
      left = std::min(left,
                      LeftInGroups(root + "/sys/fs/cgroup", group, "memory.max", "memory.current"));
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      left = std::min(left, LeftInGroups(root + "/sys/fs/cgroup/memory", group,
                                         "memory.limit_in_bytes", "memory.usage_in_bytes"));
    }
  }
  return left;
}

}  // namespace

absl::StatusOr<MemoryUse> ReadMemoryUse(const std::string& root) {
  MemoryUse use;
  LORSA_ASSIGN_OR_RETURN(use.resident, Field(root + "/proc/self/status", "VmRSS"));
  LORSA_ASSIGN_OR_RETURN(use.peak, Field(root + "/proc/self/status", "VmHWM"));
  LORSA_ASSIGN_OR_RETURN(use.available, Field(root + "/proc/meminfo", "MemAvailable"));
  use.available = std::min(use.available, LeftOfControlGroups(root));
  return use;
}

}  // namespace lorsa

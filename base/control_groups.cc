#include "base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lorsa {

std::vector<ControlGroup> ControlGroups(const std::string& root, absl::string_view controller) {
  std::vector<ControlGroup> found;
  const std::string groups = ReadKernelFile(root + "/proc/self/cgroup").value_or("");
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/")) continue;
    const std::string group(parts[2] == "/" ? "" : parts[2]);
    if (parts[0] == "0") found.push_back({root + "/sys/fs/cgroup", group, /*is_v2=*/true});
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) == controllers.end())
      continue;
    // "cpu,cpuacct" lies in a folder of that name, and mostly in "cpu" too.
    found.push_back({absl::StrCat(root, "/sys/fs/cgroup/", controller), group, /*is_v2=*/false});
    if (controllers.size() == 1) continue;
    found.push_back({absl::StrCat(root, "/sys/fs/cgroup/", parts[1]), group, /*is_v2=*/false});
  }
  return found;
}

std::vector<std::string> FoldersOf(const ControlGroup& group) {
  std::vector<std::string> folders;
  for (std::string path = group.group;; path.resize(path.rfind('/'))) {
    folders.push_back(group.mount + path);
    if (path.empty()) return folders;
  }
}

std::optional<std::string> ReadKernelFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> ReadKernelNumber(const std::string& path) {
  int64_t value = 0;
  const std::optional<std::string> text = ReadKernelFile(path);
  if (!text || !absl::SimpleAtoi(*text, &value)) return std::nullopt;
  return value;
}

absl::StatusOr<int64_t> ReadKernelBytes(const std::string& path, absl::string_view name) {
  const std::optional<std::string> text = ReadKernelFile(path);
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

std::optional<int64_t> ReadKernelCount(const std::string& path, absl::string_view name) {
  const std::optional<std::string> text = ReadKernelFile(path);
  for (const absl::string_view line : absl::StrSplit(text.value_or(""), '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    int64_t count = 0;
    if (words.size() == 2 && words[0] == name && absl::SimpleAtoi(words[1], &count)) return count;
  }
  return std::nullopt;
}

}  // namespace lorsa

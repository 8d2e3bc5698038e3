// The control groups that bound what this process may use, and the small files in which the kernel
// tells of them.
#ifndef LORSA_BASE_CONTROL_GROUPS_H_
#define LORSA_BASE_CONTROL_GROUPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorsa {

struct ControlGroup {
  std::string mount;  // folder under which the groups lie
  std::string group;  // "" for the topmost, else "/a/b"
  bool is_v2 = false;
};

// Those of this process that may bound what `controller` ("memory", "cpu") counts, v2 and v1; their
// folders need not exist. `root` is where /proc and /sys are found: empty but in tests.
std::vector<ControlGroup> ControlGroups(const std::string& root, absl::string_view controller);

// The group's own folder and those of the groups above it, which bound it too.
std::vector<std::string> FoldersOf(const ControlGroup& group);

// A file of the kernel: small, and without a size that could be asked for. Nothing if it cannot be
// read.
std::optional<std::string> ReadKernelFile(const std::string& path);

// The number that is all of such a file; nothing if there is none ("max").
std::optional<int64_t> ReadKernelNumber(const std::string& path);

// Bytes of the line "NAME:  123 kB" of such a file; NOT_FOUND if it has none.
absl::StatusOr<int64_t> ReadKernelBytes(const std::string& path, absl::string_view name);

// The number of the line "NAME 123" of such a file.
std::optional<int64_t> ReadKernelCount(const std::string& path, absl::string_view name);

}  // namespace lorsa

#endif  // LORSA_BASE_CONTROL_GROUPS_H_

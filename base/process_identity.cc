#include "base/process_identity.h"

#include <unistd.h>

#include <fstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

constexpr char kBootIdPath[] = "/proc/sys/kernel/random/boot_id";
// Fields of /proc/<pid>/stat after the command, which is in parentheses and may hold anything:
// state is the third field of the line, start time the twenty-second (proc(5)).
constexpr size_t kState = 3 - 3;
constexpr size_t kStartTicks = 22 - 3;

// Files in /proc have no size to check; these are one short line.
absl::StatusOr<std::string> ReadProcFile(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return line;
}

}  // namespace

absl::StatusOr<ProcessIdentity> IdentifyProcess(pid_t pid) {
  ProcessIdentity identity{.pid = pid};
  LORSA_ASSIGN_OR_RETURN(const std::string boot_id, ReadProcFile(kBootIdPath));
  identity.boot_id = std::string(absl::StripAsciiWhitespace(boot_id));
  LORSA_ASSIGN_OR_RETURN(const std::string stat,
                         ReadProcFile(absl::StrCat("/proc/", pid, "/stat")));
  const size_t command_end = stat.rfind(')');
  if (command_end == std::string::npos || command_end + 2 > stat.size()) {
    return absl::InternalError(absl::StrCat("cannot parse /proc/", pid, "/stat"));
  }
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(command_end + 2), ' ');
  if (fields.size() <= kStartTicks ||
      !absl::SimpleAtoi(fields[kStartTicks], &identity.start_ticks)) {
    return absl::InternalError(absl::StrCat("cannot parse /proc/", pid, "/stat"));
  }
  if (fields[kState] == "Z" || fields[kState] == "X") {
    return absl::NotFoundError(absl::StrCat("process ", pid, " has ended"));
  }
  return identity;
}

absl::StatusOr<ProcessIdentity> IdentifySelf() { return IdentifyProcess(getpid()); }

bool IsAlive(const ProcessIdentity& identity) {
  const auto found = IdentifyProcess(identity.pid);
  return found.ok() && *found == identity;
}

}  // namespace lorsa

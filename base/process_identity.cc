#include "base/process_identity.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_system.h"
#include "base/path_at.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

constexpr char kBootIdPath[] = "/proc/sys/kernel/random/boot_id";
// Fields of /proc/<pid>/stat after the command, which is in parentheses and may hold anything:
// state is the third field of the line, start time the twenty-second (proc(5)).
constexpr size_t kState = 3 - 3;
constexpr size_t kStartTicks = 22 - 3;

// One line: files in /proc have no size to check, and these are short. NOT_FOUND if the file, or
// the process that it is about, is not there; UNAVAILABLE if that cannot be known.
absl::StatusOr<std::string> ReadProcFile(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t size = file.get() < 0 ? -1 : ::read(file.get(), text, sizeof(text));
  if (size < 0 && (errno == ENOENT || errno == ESRCH)) {
    return absl::NotFoundError(absl::StrCat("there is no ", path));
  }
  if (size < 0) {
    return absl::UnavailableError(ErrnoStatus(errno, "read", path).message());
  }
  const absl::string_view contents(text, static_cast<size_t>(size));
  return std::string(contents.substr(0, contents.find('\n')));
}

// NOT_FOUND becomes UNAVAILABLE: every Linux has one, if /proc is mounted.
absl::StatusOr<std::string> ReadBootId() {
  absl::StatusOr<std::string> boot_id = ReadProcFile(kBootIdPath);
  if (!boot_id.ok()) return absl::UnavailableError(boot_id.status().message());
  return std::string(absl::StripAsciiWhitespace(*boot_id));
}

}  // namespace

absl::StatusOr<ProcessIdentity> IdentifyProcess(pid_t pid) {
  ProcessIdentity identity{.pid = pid};
  LORSA_ASSIGN_OR_RETURN(identity.boot_id, ReadBootId());
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

absl::StatusOr<bool> IsAlive(const ProcessIdentity& identity) {
  const auto found = IdentifyProcess(identity.pid);
  if (found.ok()) return *found == identity;
  if (absl::IsNotFound(found.status())) return false;
  // No descriptor is needed to see that nobody has the pid.
  if (::kill(identity.pid, 0) != 0 && errno == ESRCH) return false;
  return found.status();
}

}  // namespace lorsa

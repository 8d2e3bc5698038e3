#include "server/inspection/inspector.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_clock.h"
#include "base/path_at.h"
#include "base/spawn_settings.h"
#include "base/status_macros.h"
#include "server/inspection/answer.h"
#include "server/inspection/exit_codes.h"

namespace lorsa::server {
namespace {

// A running lorsa-inspect, gone when this is.
class Child {
 public:
  Child(pid_t pid, Descriptor output) : pid_(pid), output_(std::move(output)) {}
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), output_(std::move(other.output_)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);  // Not collected yet, so the pid is still its own.
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  // With no environment: a variable might make a library load code.
  static absl::StatusOr<Child> Start(std::vector<std::string> command) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "open a pipe to", command[0]);
    Descriptor read_end(ends[0]);
    const Descriptor write_end(ends[1]);
    SpawnSettings settings;
    settings.SendOutputTo(write_end.get());
    std::vector<std::string> environment;
    pid_t pid = 0;
    const int error =
        ::posix_spawn(&pid, command[0].c_str(), settings.actions(), settings.attributes(),
                      SpawnPointers(command).data(), SpawnPointers(environment).data());
    if (error != 0) return ErrnoStatus(error, "start", command[0]);
    return Child(pid, std::move(read_end));
  }

  // Takes what the child says until it says no more. False if the time ran out or if it says what
  // it must not.
  bool Listen(AnswerReader& answer, absl::Duration deadline) const {
    char buffer[kMaxAnswerLine];
    while (true) {
      const int64_t left = absl::ToInt64Milliseconds(deadline - MonotonicNow());
      struct pollfd wanted = {.fd = output_.get(), .events = POLLIN, .revents = 0};
      const int ready = left <= 0 ? 0 : ::poll(&wanted, 1, static_cast<int>(left));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return false;
      const ssize_t n = ::read(output_.get(), buffer, sizeof(buffer));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return n == 0;
      if (!answer.Take({buffer, static_cast<size_t>(n)})) return false;
    }
  }

  // How it ended, as waitpid says; nothing if it did not in time.
  std::optional<int> AwaitEnd(absl::Duration deadline) {
    int wait_status = 0;
    do {
      const pid_t ended = ::waitpid(pid_, &wait_status, WNOHANG);
      if (ended == pid_) {
        pid_ = 0;
        return wait_status;
      }
      absl::SleepFor(absl::Milliseconds(1));
    } while (MonotonicNow() < deadline);
    return std::nullopt;
  }

 private:
  pid_t pid_;
  Descriptor output_;
};

std::string WhyItFailed(std::optional<int> wait_status) {
  if (!wait_status.has_value()) return "it came to no end";
  if (WIFEXITED(*wait_status) && WEXITSTATUS(*wait_status) == kInspectOutOfMemory) {
    return "it needs more memory";
  }
  return absl::StrCat("the process that read it ", DescribeEnding(*wait_status));
}

absl::Status Unreadable(const std::string& path, const InspectionLimits& limits,
                        absl::Duration time, const std::string& why) {
  return absl::DataLossError(absl::StrCat(path, ": could not be read within ",
                                          limits.memory_bytes >> 20, " MiB of memory and ",
                                          absl::ToInt64Seconds(time), " s (", why,
                                          "); it is damaged or made to do harm: write it anew"));
}

}  // namespace

Inspection Inspector::Inspect(const std::string& kind, const std::string& folder) const {
  auto files = std::make_shared<InspectedFolder>(fs_, folder);
  // By the size of what can be opened; the child says what is wrong with the rest.
  const absl::Duration time =
      limits_.time + absl::Seconds(files->size() / limits_.bytes_per_second);
  const absl::Duration deadline = MonotonicNow() + 2 * time;
  auto child = Child::Start({program_, kind, folder, absl::StrCat(limits_.memory_bytes),
                             absl::StrCat(std::max<int64_t>(1, absl::ToInt64Seconds(time)))});
  if (!child.ok()) return {.status = absl::InternalError(child.status().message())};
  AnswerReader answer([&files](const std::string& name) { files->Parsed(name); });
  const bool heard = child->Listen(answer, deadline);
  const std::optional<int> wait_status = heard ? child->AwaitEnd(deadline) : std::nullopt;
  if (wait_status.has_value() && *wait_status == 0 && answer.verdict().has_value()) {
    return {.status = *answer.verdict(), .ended = true, .files = std::move(files)};
  }
  if (answer.file().empty() && wait_status.has_value() && WIFEXITED(*wait_status) &&
      WEXITSTATUS(*wait_status) == kInspectBroken) {
    return {.status = absl::InternalError(absl::StrCat(
                program_, " does not work: build lorsad and lorsa-inspect from the same source"))};
  }
  const std::string path = answer.file().empty() ? folder : JoinPath(folder, answer.file());
  return {.status = Unreadable(path, limits_, time, WhyItFailed(wait_status))};
}

}  // namespace lorsa::server

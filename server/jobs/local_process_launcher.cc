#include "server/jobs/local_process_launcher.h"

#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/spawn_settings.h"

namespace lorsa::server {
namespace {

// mpirun, which stays as long as its ranks and whose death ends them. They are on this machine, so
// no network is looked for; they have threads, so none is bound to one core.
std::vector<std::string> MpirunCommand(int ranks) {
  return {"mpirun",
          "-n",
          absl::StrCat(ranks),
          "--allow-run-as-root",
          "--oversubscribe",
          "--bind-to",
          "none",
          "--mca",
          "pml",
          "ob1",
          "--mca",
          "btl",
          "self,vader"};
}

std::vector<std::string> CommandFor(const std::string& program, WorkerProgram kind,
                                    const LaunchRequest& request) {
  if (kind == WorkerProgram::kWrapper) return {program, absl::StrCat(request.ranks)};
  std::vector<std::string> command;
  if (request.ranks > 1) command = MpirunCommand(request.ranks);
  command.push_back(program);
  command.push_back(absl::StrCat("--bootstrap=", request.bootstrap_file));
  return command;
}

// This process's environment, with `device` the only one to be seen unless it is empty.
std::vector<std::string> EnvironmentWith(const std::string& device) {
  std::vector<std::string> variables;
  const std::string prefix = absl::StrCat(kDeviceVariable, "=");
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (device.empty() || !absl::StartsWith(*variable, prefix)) variables.push_back(*variable);
  }
  if (!device.empty()) variables.push_back(prefix + device);
  return variables;
}

// What a process that was killed, or mpirun whose rank was, leaves behind.
bool IsKilled(int wait_status) {
  return (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) ||
         (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 128 + SIGKILL);
}

// `before` and `now`: processes killed for want of memory by the launch and by the end.
ProcessStatus EndingOf(int wait_status, std::optional<int64_t> before, std::optional<int64_t> now) {
  ProcessStatus status{.alive = false, .ending = DescribeEnding(wait_status)};
  if (WIFEXITED(wait_status)) status.exit_status = WEXITSTATUS(wait_status);
  if (!IsKilled(wait_status)) return status;
  if (!before || !now) {
    absl::StrAppend(&status.ending, ", perhaps because memory ran out");
  } else if (*now > *before) {
    status.out_of_memory = true;
    absl::StrAppend(&status.ending, " because memory ran out");
  }
  return status;
}

}  // namespace

absl::StatusOr<ProcessIdentity> LocalProcessLauncher::Launch(const LaunchRequest& request) {
  const bool wrapped = kind_ == WorkerProgram::kWrapper;
  SpawnSettings settings;
  if (wrapped) settings.ReadInputFrom(request.bootstrap_file);
  settings.AppendOutputTo(request.log_file);
  std::vector<std::string> command = CommandFor(program_, kind_, request);
  absl::MutexLock lock(&mu_);
  const std::string device = devices_.empty() ? "" : devices_.Choose();
  std::vector<std::string> environment = EnvironmentWith(device);
  const std::optional<int64_t> kills = out_of_memory_kills_();
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, command[0].c_str(), settings.actions(), settings.attributes(),
                     SpawnPointers(command).data(), SpawnPointers(environment).data());
  const bool ranked = request.ranks > 1 && !wrapped;
  if (error != 0) {
    return ErrnoStatus(
        error, ranked ? "start ranks with (of Debian's openmpi-bin)" : "start worker", command[0]);
  }
  uncollected_[pid] = kills;
  const absl::StatusOr<ProcessIdentity> identity = IdentifyProcess(pid);
  if (identity.ok() && !device.empty()) devices_.Hold(*identity, device);
  // One that has ended already is known by its pid alone; Check says how it ended.
  return identity.ok() ? *identity : ProcessIdentity{.pid = pid};
}

ProcessStatus LocalProcessLauncher::Check(const ProcessIdentity& process) {
  absl::MutexLock lock(&mu_);
  if (IsAlive(process)) {
    devices_.Adopt(process);
    return {.alive = true};
  }
  // Collects a child of ours, so that no zombie stays; of another's child nothing is known.
  int wait_status = 0;
  if (::waitpid(process.pid, &wait_status, WNOHANG) != process.pid) return {};
  const auto launched = uncollected_.extract(process.pid);
  return EndingOf(wait_status, launched.empty() ? std::nullopt : launched.mapped(),
                  out_of_memory_kills_());
}

void LocalProcessLauncher::ReapAllBut(absl::Span<const ProcessIdentity> watched) {
  absl::MutexLock lock(&mu_);
  std::erase_if(uncollected_, [&](const auto& child) {
    const pid_t pid = child.first;
    const bool is_watched = std::any_of(watched.begin(), watched.end(),
                                        [&](const auto& process) { return process.pid == pid; });
    // Not only when it was collected: an error says that it is no child any more.
    return !is_watched && ::waitpid(pid, nullptr, WNOHANG) != 0;
  });
}

void LocalProcessLauncher::Kill(const ProcessIdentity& process) {
  // The descriptor stands for the process that has the pid now; if that still is the one meant, the
  // signal cannot hit another.
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0));
  if (fd < 0) return;
  if (IsAlive(process)) ::syscall(SYS_pidfd_send_signal, fd, SIGKILL, nullptr, 0);
  ::close(fd);
}

}  // namespace lorsa::server

#include "server/jobs/local_process_launcher.h"

#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_system.h"
#include "base/path_at.h"
#include "base/spawn_settings.h"
#include "base/status_macros.h"
#include "server/jobs/worker_environment.h"

namespace lorsa::server {
namespace {

constexpr char kMpirun[] = "mpirun";

// mpirun, which stays as long as its ranks and whose death ends them. They have threads, so none is
// bound to one core. They are on this machine, whatever a batch system or a file of Open MPI's
// parameters in the home folder says: no other launcher, list of hosts or network is used.
std::vector<std::string> MpirunCommand(int ranks) {
  std::vector<std::string> command = {
      kMpirun,     "-n",  absl::StrCat(ranks), "--allow-run-as-root", "--oversubscribe",
      "--bind-to", "none"};
  constexpr std::pair<const char*, const char*> kParameters[] = {
      {"mca_base_param_files", "/dev/null"}, {"plm", "isolated"}, {"ras", "^slurm"},
      {"orte_default_hostfile", "none"},     {"pml", "ob1"},      {"btl", "self,vader"}};
  for (const auto& [name, value] : kParameters) {
    command.insert(command.end(), {"--mca", name, value});
  }
  return command;
}

std::vector<std::string> CommandFor(const std::string& program, WorkerProgram kind,
                                    const LaunchRequest& request) {
  if (kind == WorkerProgram::kWrapper) return {program, absl::StrCat(request.ranks)};
  std::vector<std::string> command;
  if (request.ranks > 1) command = MpirunCommand(request.ranks);
  if (request.command.empty()) {
    command.push_back(program);
  } else {
    command.insert(command.end(), request.command.begin(), request.command.end());
  }
  command.push_back(absl::StrCat("--bootstrap=", request.bootstrap_file));
  return command;
}

// `variables` with `device` the only one to be seen.
void ShowOnly(const std::string& device, std::vector<std::string>& variables) {
  const std::string prefix = absl::StrCat(kDeviceVariable, "=");
  std::erase_if(variables,
                [&](const std::string& variable) { return absl::StartsWith(variable, prefix); });
  variables.push_back(prefix + device);
}

std::vector<std::string> WholeEnvironment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  return variables;
}

// A wrapper is the operator's program and decides itself what it passes on.
std::vector<std::string> EnvironmentOf(WorkerProgram kind, const std::string& device) {
  std::vector<std::string> variables =
      kind == WorkerProgram::kWrapper ? WholeEnvironment() : WorkerEnvironment(environ);
  if (!device.empty()) ShowOnly(device, variables);
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

std::string LocalProcessLauncher::Obstacle() const {
  if (IsProgram(program_)) return "";
  return absl::StrCat(program_, " is missing or cannot be executed; put it back");
}

std::string LocalProcessLauncher::RanksObstacle() const {
  if (kind_ == WorkerProgram::kWrapper) return "";
  if (IsProgramOnPath(kMpirun)) return "";
  return "mpirun, which starts the ranks of a job, is not on the PATH of lorsad: install it "
         "(Debian: openmpi-bin)";
}

absl::StatusOr<ProcessIdentity> LocalProcessLauncher::Launch(const LaunchRequest& request) {
  const bool wrapped = kind_ == WorkerProgram::kWrapper;
  SpawnSettings settings;
  if (wrapped) settings.ReadInputFrom(request.bootstrap_file);
  settings.AppendOutputTo(request.log_file);
  std::vector<std::string> command = CommandFor(program_, kind_, request);
  absl::MutexLock lock(&mu_);
  const std::string device = devices_.empty() ? "" : devices_.Choose();
  std::vector<std::string> environment = EnvironmentOf(kind_, device);
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
  LORSA_ASSIGN_OR_RETURN(ProcessIdentity process, Adopt(pid, kills));
  if (!device.empty()) devices_.Hold(process, device);
  return process;
}

absl::StatusOr<ProcessIdentity> LocalProcessLauncher::Adopt(pid_t pid,
                                                            std::optional<int64_t> kills) {
  absl::StatusOr<ProcessIdentity> process = IdentifyProcess(pid);
  // One that has ended already is known by its pid alone; Check says how it ended.
  if (absl::IsNotFound(process.status())) process = ProcessIdentity{.pid = pid};
  if (!process.ok()) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return process.status();
  }
  children_[pid] = {.process = *process, .kills = kills};
  return process;
}

const LocalProcessLauncher::Child* LocalProcessLauncher::ChildOf(
    const ProcessIdentity& process) const {
  const auto child = children_.find(process.pid);
  return child != children_.end() && child->second.process == process ? &child->second : nullptr;
}

ProcessStatus LocalProcessLauncher::Check(const ProcessIdentity& process) {
  absl::MutexLock lock(&mu_);
  if (const Child* child = ChildOf(process)) {
    int wait_status = 0;
    const pid_t ended = ::waitpid(process.pid, &wait_status, WNOHANG);
    if (ended == 0) return {.alive = true};
    const std::optional<int64_t> kills = child->kills;
    children_.erase(process.pid);
    return ended < 0 ? ProcessStatus() : EndingOf(wait_status, kills, out_of_memory_kills_());
  }
  if (!IsAlive(process).value_or(true)) return {};
  devices_.Adopt(process);
  return {.alive = true};
}

void LocalProcessLauncher::ReapAllBut(absl::Span<const ProcessIdentity> watched) {
  absl::MutexLock lock(&mu_);
  std::erase_if(children_, [&](const auto& child) {
    const pid_t pid = child.first;
    const bool is_watched = std::any_of(watched.begin(), watched.end(),
                                        [&](const auto& process) { return process.pid == pid; });
    // Not only when it was collected: an error says that it is no child any more.
    return !is_watched && ::waitpid(pid, nullptr, WNOHANG) != 0;
  });
}

void LocalProcessLauncher::Kill(const ProcessIdentity& process) {
  absl::MutexLock lock(&mu_);
  if (ChildOf(process) != nullptr) {
    ::kill(process.pid, SIGKILL);
    return;
  }
  // The descriptor stands for the process that has the pid now; if that still is the one meant, the
  // signal cannot hit another.
  const Descriptor fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (fd.get() < 0 || !IsAlive(process).value_or(false)) return;
  ::syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0);
}

}  // namespace lorsa::server

// Workers as processes on this machine.
#ifndef LORSA_SERVER_JOBS_LOCAL_PROCESS_LAUNCHER_H_
#define LORSA_SERVER_JOBS_LOCAL_PROCESS_LAUNCHER_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "base/machine_memory.h"
#include "server/jobs/device_pool.h"
#include "server/jobs/launcher.h"

namespace lorsa::server {

// What is started for an attempt.
enum class WorkerProgram {
  // `PROGRAM --bootstrap=FILE`, stdin from /dev/null. Several ranks are started by mpirun, from the
  // PATH; the process that is known is then mpirun's, whose death is that of all.
  kWorker,
  // `PROGRAM RANKS`, stdin from the bootstrap file: runs the worker on another machine and lives as
  // long as it does.
  kWrapper,
};

// Runs the program in a session of its own, so that no signal of the server's terminal reaches it;
// with stdout and stderr appended to the log file, no other descriptor and no blocked signal. A
// worker gets the part of the server's environment that worker_environment.h names, a wrapper all
// of it. With devices, each launch sees one of them (device_pool.h).
class LocalProcessLauncher final : public Launcher {
 public:
  // Number of processes killed so far because memory ran out; nothing if it is not known.
  using KillCount = std::function<std::optional<int64_t>()>;

  explicit LocalProcessLauncher(
      std::string program, std::vector<std::string> devices = {},
      KillCount out_of_memory_kills = [] { return CountOutOfMemoryKills(); },
      WorkerProgram kind = WorkerProgram::kWorker)
      : program_(std::move(program)),
        kind_(kind),
        out_of_memory_kills_(std::move(out_of_memory_kills)),
        devices_(std::move(devices)) {}

  // Why nothing can be launched just now, if the program is missing or cannot be executed; else
  // empty.
  std::string Obstacle() const;
  absl::StatusOr<ProcessIdentity> Launch(const LaunchRequest& request) override;
  std::string RanksObstacle() const override;
  ProcessStatus Check(const ProcessIdentity& process) override;
  void Kill(const ProcessIdentity& process) override;
  void ReapAllBut(absl::Span<const ProcessIdentity> watched) override;

 private:
  struct Child {
    ProcessIdentity process;
    std::optional<int64_t> kills;  // for want of memory, when it was launched
  };
  // Takes in the process that was just spawned, or ends it if it cannot be identified.
  absl::StatusOr<ProcessIdentity> Adopt(pid_t pid, std::optional<int64_t> kills)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Null if `process` is none of these children, or was collected.
  const Child* ChildOf(const ProcessIdentity& process) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string program_;
  const WorkerProgram kind_;
  const KillCount out_of_memory_kills_;
  // Held while one is collected too: from then on its pid may be another child's.
  absl::Mutex mu_;
  // Of this process, and not collected: their pids are theirs.
  std::map<pid_t, Child> children_ ABSL_GUARDED_BY(mu_);
  DevicePool devices_ ABSL_GUARDED_BY(mu_);
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_LOCAL_PROCESS_LAUNCHER_H_

// Starts worker processes and watches over them.
#ifndef LORSA_SERVER_JOBS_LAUNCHER_H_
#define LORSA_SERVER_JOBS_LAUNCHER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/process_identity.h"

namespace lorsa::server {

struct LaunchRequest {
  std::string bootstrap_file;  // WorkerBootstrap, which the worker reads first
  std::string log_file;        // gets what the worker prints, appended
  int ranks = 1;               // processes that share the work
  // Program and its first arguments; empty for the launcher's own program.
  std::vector<std::string> command = {};
};

struct ProcessStatus {
  bool alive = false;
  // How it ended, if that is known: "exited with status 1", "was killed by signal 9 (Killed)".
  std::string ending;
  std::optional<int> exit_status;  // if it exited, and that is known
  // The kernel killed it because memory ran out, as far as that can be told.
  bool out_of_memory = false;
};

// All methods may be called from any thread. A worker outlives the server that launched it, so a
// process is known by its identity and need not be a child of this one.
class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual absl::StatusOr<ProcessIdentity> Launch(const LaunchRequest& request) = 0;
  virtual ProcessStatus Check(const ProcessIdentity& process) = 0;
  // Why jobs of several ranks cannot be launched just now, one sentence; empty if they can.
  virtual std::string RanksObstacle() const { return ""; }
  // Ends the process at once (SIGKILL); nothing if it is gone.
  virtual void Kill(const ProcessIdentity& process) = 0;
  // Collects processes launched here that have ended and that nobody will ask about: all but
  // `watched`, whose endings Check has yet to tell.
  virtual void ReapAllBut(absl::Span<const ProcessIdentity> /*watched*/) {}
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_LAUNCHER_H_

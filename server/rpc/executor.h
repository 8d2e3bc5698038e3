// The threads on which handlers run. gRPC's callback API has about two threads for all of its
// reactions, so nothing that can block (SQLite, disk, HDF5) runs inside one: a reaction schedules
// the work here and returns.
#ifndef LORSA_SERVER_RPC_EXECUTOR_H_
#define LORSA_SERVER_RPC_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/fair_queue.h"

namespace lorsa::server {

// What may wait for a thread of one executor.
struct ExecutorLimits {
  size_t calls = 4096;
  size_t request_bytes = size_t{256} << 20;  // of these calls together
};

// A fixed number of threads that run tasks. Callers take turns, and so do new calls and the next
// steps of calls that have begun: a flood of calls delays a stream by one task at a time. Tasks of
// one caller run in the order in which they were scheduled. Thread-safe.
class Executor {
 public:
  // Identifies a call that waits.
  struct Ticket {
    std::string caller;
    int64_t number = 0;
  };

  // std::system_error if the system has no thread left.
  explicit Executor(int threads, const ExecutorLimits& limits = {});
  // Runs every task that is queued, including those that they schedule in turn, then joins. What
  // schedules from elsewhere (the gRPC server above all) must have stopped before.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // The next step of an admitted call, or work of the server's own: never refused. An exception
  // that leaves `task` is logged and goes no further.
  void Schedule(std::function<void()> task, const std::string& caller = "")
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The first step of a new call whose request takes `request_bytes`. UNAVAILABLE (SERVER_BUSY),
  // with advice when to try again, if that is more than the limits let wait.
  absl::StatusOr<Ticket> Admit(std::function<void()> task, const std::string& caller,
                               size_t request_bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes an admitted call out of the queue. False if a thread has taken it up already.
  bool Withdraw(const Ticket& ticket) ABSL_LOCKS_EXCLUDED(mutex_);

  // Tasks that no thread has taken up yet.
  size_t queued() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  void Join() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWorkOrIsDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::function<void()> TakeTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ExecutorLimits limits_;
  mutable absl::Mutex mutex_;
  FairQueue calls_ ABSL_GUARDED_BY(mutex_);  // new ones
  FairQueue steps_ ABSL_GUARDED_BY(mutex_);  // everything else
  bool steps_turn_ ABSL_GUARDED_BY(mutex_) = true;
  int64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // tasks that a thread is running
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_EXECUTOR_H_

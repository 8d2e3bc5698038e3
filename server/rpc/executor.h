// The threads on which handlers run. gRPC's callback API has about two threads for all of its
// reactions, so nothing that can block (SQLite, disk, HDF5) runs inside one: a reaction schedules
// the work here and returns.
#ifndef LORSA_SERVER_RPC_EXECUTOR_H_
#define LORSA_SERVER_RPC_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace lorsa::server {

// A fixed number of threads that run tasks in the order in which they were scheduled. Thread-safe.
class Executor {
 public:
  explicit Executor(int threads);
  // Runs every task that is queued, those that they schedule in turn included, then joins. What
  // schedules from elsewhere (the gRPC server above all) must have stopped before.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Schedule(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);

  // Tasks that no thread has taken up yet: what overload is judged by.
  size_t queued() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasWorkOrIsDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // tasks that a thread is running
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_EXECUTOR_H_

// The threads that read sequences, shared by all streams of a process.
#ifndef LORSA_ACTIVATION_STORE_READER_POOL_H_
#define LORSA_ACTIVATION_STORE_READER_POOL_H_

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace lorsa::store {

// A fixed number of threads that run tasks in the order in which they were scheduled. Thread-safe.
class ReaderPool {
 public:
  // RESOURCE_EXHAUSTED if the system refuses one of `threads` ≥ 1 threads.
  static absl::StatusOr<std::unique_ptr<ReaderPool>> Create(int threads);
  // Runs the queued tasks, then joins. Nothing is scheduled by then.
  ~ReaderPool();
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;

  // `task` throws no exception.
  void Schedule(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ReaderPool() = default;
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_READER_POOL_H_

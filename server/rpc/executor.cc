#include "server/rpc/executor.h"

#include <utility>

namespace lorsa::server {

Executor::Executor(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

Executor::~Executor() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void Executor::Schedule(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
}

size_t Executor::queued() const {
  absl::MutexLock lock(&mutex_);
  return tasks_.size();
}

// A running task may still schedule another, so a thread leaves only when none runs.
bool Executor::HasWorkOrIsDone() const { return !tasks_.empty() || (stopping_ && running_ == 0); }

void Executor::Run() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Executor::HasWorkOrIsDone));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      ++running_;
    }
    task();
    task = nullptr;  // What it holds is released before it counts as done.
    absl::MutexLock lock(&mutex_);
    --running_;
  }
}

}  // namespace lorsa::server

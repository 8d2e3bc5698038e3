#include "activation_store/reader_pool.h"

#include <utility>

#include "base/exception_wall.h"

namespace lorsa::store {

absl::StatusOr<std::unique_ptr<ReaderPool>> ReaderPool::Create(int threads) {
  return CatchExceptions([threads]() -> absl::StatusOr<std::unique_ptr<ReaderPool>> {
    std::unique_ptr<ReaderPool> pool(new ReaderPool());
    pool->threads_.reserve(static_cast<size_t>(threads));
    for (int i = 0; i < threads; ++i) {
      pool->threads_.emplace_back([pool = pool.get()] { pool->Run(); });
    }
    return pool;
  });
}

ReaderPool::~ReaderPool() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ReaderPool::Schedule(std::function<void()> task) {
  const absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
  changed_.Signal();
}

void ReaderPool::Run() {
  while (true) {
    std::function<void()> task;
    {
      const absl::MutexLock lock(&mutex_);
      while (tasks_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace lorsa::store

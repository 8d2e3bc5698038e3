#include "server/rpc/fair_queue.h"

#include <utility>

namespace lorsa::server {

void FairQueue::Push(const std::string& caller, int64_t number, Task task) {
  const size_t bytes = task.bytes;
  Tasks& tasks = tasks_[caller];
  tasks.emplace_hint(tasks.end(), number, std::move(task));
  ++size_;
  bytes_ += bytes;
}

std::function<void()> FairQueue::Pop() {
  auto next = tasks_.upper_bound(last_caller_);
  if (next == tasks_.end()) next = tasks_.begin();
  last_caller_ = next->first;
  return Take(next, next->second.begin());
}

std::function<void()> FairQueue::Remove(const std::string& caller, int64_t number) {
  const auto tasks = tasks_.find(caller);
  if (tasks == tasks_.end()) return nullptr;
  const auto task = tasks->second.find(number);
  return task == tasks->second.end() ? nullptr : Take(tasks, task);
}

std::function<void()> FairQueue::Take(std::map<std::string, Tasks>::iterator caller,
                                      Tasks::iterator task) {
  std::function<void()> run = std::move(task->second.run);
  --size_;
  bytes_ -= task->second.bytes;
  caller->second.erase(task);
  if (caller->second.empty()) tasks_.erase(caller);
  return run;
}

}  // namespace lorsa::server

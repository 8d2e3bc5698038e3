// A queue in which each caller waits for its own work only: tasks of one caller leave in order, and
// callers take turns.
#ifndef LORSA_SERVER_RPC_FAIR_QUEUE_H_
#define LORSA_SERVER_RPC_FAIR_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace lorsa::server {

// Not thread-safe.
class FairQueue {
 public:
  struct Task {
    std::function<void()> run;
    size_t bytes = 0;  // of memory that it holds until it has run
  };

  // `number` is larger than all before.
  void Push(const std::string& caller, int64_t number, Task task);
  // The next task of the next caller. Not of an empty queue.
  std::function<void()> Pop();
  // Takes a task out; an empty function if it is not there any more.
  std::function<void()> Remove(const std::string& caller, int64_t number);

  bool empty() const { return tasks_.empty(); }
  size_t size() const { return size_; }
  size_t bytes() const { return bytes_; }

 private:
  using Tasks = std::map<int64_t, Task>;
  std::function<void()> Take(std::map<std::string, Tasks>::iterator caller, Tasks::iterator task);

  std::map<std::string, Tasks> tasks_;  // by caller; none of them is empty
  std::string last_caller_;             // whose turn it was
  size_t size_ = 0;
  size_t bytes_ = 0;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_FAIR_QUEUE_H_

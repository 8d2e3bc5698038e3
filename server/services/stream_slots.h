// A bound on how many of a costly kind of stream run at once.
#ifndef LORSA_SERVER_SERVICES_STREAM_SLOTS_H_
#define LORSA_SERVER_SERVICES_STREAM_SLOTS_H_

#include <atomic>
#include <memory>

namespace lorsa::server {

// Thread-safe.
class StreamSlots {
 public:
  explicit StreamSlots(int slots) : free_(std::make_shared<std::atomic<int>>(slots)) {}

  // A slot, given back when the pointer and its copies are gone (also after the StreamSlots is);
  // null if none is free.
  std::shared_ptr<void> TryTake() {
    if (free_->fetch_sub(1) <= 0) {
      free_->fetch_add(1);
      return nullptr;
    }
    return {free_.get(), [free = free_](void*) { free->fetch_add(1); }};
  }

 private:
  const std::shared_ptr<std::atomic<int>> free_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_STREAM_SLOTS_H_

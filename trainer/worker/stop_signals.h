// SIGTERM and SIGINT as a request to stop in good order.
#ifndef LORSA_TRAINER_WORKER_STOP_SIGNALS_H_
#define LORSA_TRAINER_WORKER_STOP_SIGNALS_H_

#include <atomic>
#include <thread>

namespace lorsa::worker {

// Blocks the two signals in the calling thread and in those it starts later, and waits for them in
// a thread of its own. Make one, in main, before any other thread. The second signal ends the
// process at once with exit code 130.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  const std::atomic<bool>& requested() const { return requested_; }

 private:
  void Wait();

  std::atomic<bool> requested_ = false;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_STOP_SIGNALS_H_

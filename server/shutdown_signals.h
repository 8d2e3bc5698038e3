// SIGTERM and SIGINT as something to wait for, without signal handlers.
#ifndef LORSA_SERVER_SHUTDOWN_SIGNALS_H_
#define LORSA_SERVER_SHUTDOWN_SIGNALS_H_

#include <signal.h>

#include <functional>
#include <thread>

namespace lorsa::server {

// Blocks the signals in the thread that makes it, so that every thread started later inherits that
// and only the waiting thread takes them: make it first in main. SIGPIPE is blocked too: a closed
// pipe is an error of the write.
class ShutdownSignals {
 public:
  ShutdownSignals();

  // Returns the first signal.
  int Wait();

 private:
  sigset_t signals_;
};

// As long as it lives, a thread waits for another signal and calls `on_signal`: for a second Ctrl-C
// while the server drains.
class SecondSignalWatch {
 public:
  explicit SecondSignalWatch(std::function<void()> on_signal);

 private:
  std::jthread thread_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SHUTDOWN_SIGNALS_H_

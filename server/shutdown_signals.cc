#include "server/shutdown_signals.h"

#include <ctime>
#include <utility>

namespace lorsa::server {
namespace {

sigset_t TerminationSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

ShutdownSignals::ShutdownSignals() : signals_(TerminationSignals()) {
  sigset_t blocked = signals_;
  sigaddset(&blocked, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

int ShutdownSignals::Wait() {
  int signal = 0;
  sigwait(&signals_, &signal);
  return signal;
}

SecondSignalWatch::SecondSignalWatch(std::function<void()> on_signal)
    : thread_([on_signal = std::move(on_signal)](const std::stop_token& stop) {
        const sigset_t signals = TerminationSignals();
        const timespec patience = {.tv_sec = 0, .tv_nsec = 100'000'000};
        while (!stop.stop_requested()) {
          if (sigtimedwait(&signals, nullptr, &patience) > 0) on_signal();
        }
      }) {}

}  // namespace lorsa::server

#include "trainer/worker/stop_signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

namespace lorsa::worker {
namespace {

constexpr int kExitForced = 130;

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = StopSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { Wait(); });
}

StopSignals::~StopSignals() {
  done_ = true;
  thread_.join();
}

void StopSignals::Wait() {
  const sigset_t set = StopSet();
  const timespec poll{.tv_sec = 0, .tv_nsec = 200'000'000};  // how late `done_` is seen
  while (!done_) {
    if (sigtimedwait(&set, nullptr, &poll) < 0) continue;
    if (requested_.exchange(true)) _exit(kExitForced);
  }
}

}  // namespace lorsa::worker

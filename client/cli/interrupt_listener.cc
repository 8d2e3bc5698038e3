#include "client/cli/interrupt_listener.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "client/cli/session.h"

namespace lorsa::cli {
namespace {

sigset_t InterruptSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

InterruptListener::InterruptListener() {
  // Blocked here, and so in every thread that is started from now on; Listen alone receives it.
  const sigset_t set = InterruptSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([this] { Listen(); }).detach();
}

void InterruptListener::SetHandler(std::function<void()> handler) {
  absl::MutexLock lock(&mutex_);
  handler_ = std::move(handler);
}

void InterruptListener::Listen() {
  const sigset_t set = InterruptSet();
  while (true) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    absl::MutexLock lock(&mutex_);
    if (!handler_) _exit(kInterrupted);
    std::exchange(handler_, nullptr)();
  }
}

}  // namespace lorsa::cli

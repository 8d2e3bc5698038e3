#include "base/periodic_thread.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/exception_wall.h"

namespace lorsa {

PeriodicThread::PeriodicThread(absl::Duration interval, std::function<bool()> work)
    : interval_(interval), work_(std::move(work)), thread_([this] { Run(); }) {}

void PeriodicThread::Run() {
  for (absl::Duration pause = absl::InfiniteDuration(); AwaitWork(pause);) {
    bool more = false;
    const absl::Status worked = CatchExceptions([&] {
      more = work_();
      return absl::OkStatus();
    });
    if (!worked.ok()) spdlog::error("event=work_failed error=\"{}\"", worked.ToString());
    pause = more ? absl::ZeroDuration() : interval_;
  }
}

bool PeriodicThread::AwaitWork(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  changed_.AwaitFor(mu_, timeout, [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return stopping_ || (started_ && poked_);
  });
  poked_ = false;
  return !stopping_;
}

void PeriodicThread::Start() {
  absl::MutexLock lock(&mu_);
  started_ = true;
  poked_ = true;
  changed_.NotifyAll();
}

void PeriodicThread::Poke() {
  absl::MutexLock lock(&mu_);
  poked_ = true;
  changed_.NotifyAll();
}

bool PeriodicThread::stopping() const {
  absl::MutexLock lock(&mu_);
  return stopping_;
}

void PeriodicThread::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace lorsa

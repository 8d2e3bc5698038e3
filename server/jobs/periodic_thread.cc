#include "server/jobs/periodic_thread.h"

#include <spdlog/spdlog.h>

#include "base/exception_wall.h"

namespace lorsa::server {

void PeriodicThread::Start() {
  thread_ = std::thread([this] { Run(); });
}

void PeriodicThread::Run() {
  while (true) {
    bool more = false;
    const absl::Status worked = CatchExceptions([&] {
      more = work_();
      return absl::OkStatus();
    });
    if (!worked.ok()) spdlog::error("event=work_failed error=\"{}\"", worked.ToString());
    absl::MutexLock lock(&mu_);
    const auto due = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return stopping_ || poked_; };
    if (!more) mu_.AwaitWithTimeout(absl::Condition(&due), interval_);
    if (stopping_) return;
    poked_ = false;
  }
}

void PeriodicThread::Poke() {
  absl::MutexLock lock(&mu_);
  poked_ = true;
}

void PeriodicThread::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace lorsa::server

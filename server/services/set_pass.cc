#include "server/services/set_pass.h"

namespace lorsa::server {
namespace {

constexpr absl::Duration kReportInterval = absl::Milliseconds(500);

}  // namespace

bool PassProgress::Update(int64_t bytes_done, int64_t bytes_total) {
  const absl::Time now = now_();
  const int64_t percent = bytes_total > 0 ? bytes_done / (bytes_total / 100.0) : 100;
  {
    absl::MutexLock lock(&mutex_);
    if (cancelled_) return false;
    if (percent == last_percent_ && now - last_time_ < kReportInterval) return true;
    last_percent_ = percent;
    last_time_ = now;
    unreported_.emplace();
    unreported_->set_bytes_done(bytes_done);
    unreported_->set_bytes_total(bytes_total);
  }
  waker_();
  return true;
}

std::optional<v1::SetProgress> PassProgress::Take() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(unreported_, std::nullopt);
}

void PassProgress::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
}

bool PassProgress::cancelled() const {
  absl::MutexLock lock(&mutex_);
  return cancelled_;
}

}  // namespace lorsa::server

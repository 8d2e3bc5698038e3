#include "server/jobs/job_watch.h"

#include <utility>
#include <vector>

namespace lorsa::server {

struct JobWatchHub::Subscription::Entry {
  std::string job_id;
  unsigned signals = 0;
  absl::Mutex mu;                                  // held while `wake` runs
  std::function<void()> wake ABSL_GUARDED_BY(mu);  // null once the subscription has ended
};

JobWatchHub::Subscription::Subscription(JobWatchHub& hub, std::shared_ptr<Entry> entry)
    : hub_(hub), entry_(std::move(entry)) {}

JobWatchHub::Subscription::~Subscription() {
  {
    absl::MutexLock lock(&entry_->mu);
    entry_->wake = nullptr;
  }
  absl::MutexLock lock(&hub_.mu_);
  auto [it, end] = hub_.entries_.equal_range(entry_->job_id);
  while (it != end && it->second != entry_) ++it;
  hub_.entries_.erase(it);
}

std::unique_ptr<JobWatchHub::Subscription> JobWatchHub::Subscribe(absl::string_view job_id,
                                                                  unsigned signals,
                                                                  std::function<void()> wake) {
  auto entry = std::make_shared<Subscription::Entry>();
  entry->job_id = std::string(job_id);
  entry->signals = signals;
  {
    absl::MutexLock lock(&entry->mu);
    entry->wake = std::move(wake);
  }
  absl::MutexLock lock(&mu_);
  entries_.emplace(entry->job_id, entry);
  return std::unique_ptr<Subscription>(new Subscription(*this, std::move(entry)));
}

void JobWatchHub::Notify(absl::string_view job_id, unsigned signals) {
  std::vector<std::shared_ptr<Subscription::Entry>> woken;
  {
    absl::MutexLock lock(&mu_);
    auto [it, end] = entries_.equal_range(std::string(job_id));
    for (; it != end; ++it) {
      if ((it->second->signals & signals) != 0) woken.push_back(it->second);
    }
  }
  for (const auto& entry : woken) {
    absl::MutexLock lock(&entry->mu);
    if (entry->wake != nullptr) entry->wake();
  }
}

}  // namespace lorsa::server

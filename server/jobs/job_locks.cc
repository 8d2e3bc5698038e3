#include "server/jobs/job_locks.h"

#include <utility>

namespace lorsa::server {

LockedJob::LockedJob(JobLocks& locks, std::string id) : locks_(locks), id_(std::move(id)) {
  absl::MutexLock lock(&locks_.mu_);
  const auto is_free = [this]() ABSL_SHARED_LOCKS_REQUIRED(locks_.mu_) {
    return !locks_.locked_.contains(id_);
  };
  locks_.mu_.Await(absl::Condition(&is_free));
  locks_.locked_.insert(id_);
}

LockedJob::~LockedJob() {
  absl::MutexLock lock(&locks_.mu_);
  locks_.locked_.erase(id_);
}

}  // namespace lorsa::server

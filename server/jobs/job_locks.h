// A lock for each job: long work on the files of one job does not hold up that on another's.
#ifndef LORSA_SERVER_JOBS_JOB_LOCKS_H_
#define LORSA_SERVER_JOBS_JOB_LOCKS_H_

#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace lorsa::server {

// Thread-safe.
class JobLocks {
 private:
  friend class LockedJob;
  absl::Mutex mu_;
  std::set<std::string> locked_ ABSL_GUARDED_BY(mu_);
};

// Holds a job's lock as long as it lives; whoever needs the lock takes one of these as an argument.
class LockedJob {
 public:
  // Waits until nobody else holds it. `locks` outlives this.
  LockedJob(JobLocks& locks, std::string id);
  ~LockedJob();
  LockedJob(const LockedJob&) = delete;
  LockedJob& operator=(const LockedJob&) = delete;

  const std::string& id() const { return id_; }

 private:
  JobLocks& locks_;
  const std::string id_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_LOCKS_H_

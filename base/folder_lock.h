// One process at a time for a folder.
#ifndef LORSA_BASE_FOLDER_LOCK_H_
#define LORSA_BASE_FOLDER_LOCK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/folder_lease.h"
#include "base/path_at.h"

namespace lorsa {

// Whether `error`, the errno of taking a lock, says that the file system has none, as some network
// and user-space file systems do.
bool LacksLocks(int error);

// Held as long as it lives. Where the file system has flock(2), the kernel lets go when the process
// ends, however it ends; elsewhere a lease stands in (folder_lease.h). The descriptor is
// close-on-exec: a child that outlives the holder must not keep the lock.
class FolderLock {
 public:
  // flock(2), for tests.
  using Flock = std::function<int(int fd, int operation)>;

  // Takes flock(2) on the file `path` of the folder, creating it. FAILED_PRECONDITION, naming the
  // holder's pid, if another process has it: at once, or as FolderLease::Acquire if the file system
  // has no flock.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Acquire(const std::string& path,
                                                             LeaseTimes lease_times = {},
                                                             const Flock& flock = SystemFlock);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  static int SystemFlock(int fd, int operation);
  FolderLock(Descriptor file, std::unique_ptr<FolderLease> lease)
      : file_(std::move(file)), lease_(std::move(lease)) {}

  const Descriptor file_;
  const std::unique_ptr<FolderLease> lease_;  // null with flock
};

}  // namespace lorsa

#endif  // LORSA_BASE_FOLDER_LOCK_H_

// One process at a time for a folder.
#ifndef LORSA_BASE_FOLDER_LOCK_H_
#define LORSA_BASE_FOLDER_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace lorsa {

// Held as long as it lives; the kernel lets go when the process ends, however it ends. The
// descriptor is close-on-exec: a child that outlives the holder must not keep the lock.
class FolderLock {
 public:
  // Takes flock(2) on the file `path` of the folder, creating it. FAILED_PRECONDITION at once,
  // naming the holder's pid, if another process has it.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Acquire(const std::string& path);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace lorsa

#endif  // LORSA_BASE_FOLDER_LOCK_H_

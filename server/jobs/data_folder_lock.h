// One server per data folder.
#ifndef LORSA_SERVER_JOBS_DATA_FOLDER_LOCK_H_
#define LORSA_SERVER_JOBS_DATA_FOLDER_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace lorsa::server {

// Held as long as it lives; the kernel lets go when the process ends, however it ends. The
// descriptor is close-on-exec: a worker that outlives the server must not keep the lock.
class DataFolderLock {
 public:
  // Takes flock(2) on `path`, creating the file. FAILED_PRECONDITION at once, naming the holder's
  // pid, if another process has it.
  static absl::StatusOr<std::unique_ptr<DataFolderLock>> Acquire(const std::string& path);
  ~DataFolderLock();
  DataFolderLock(const DataFolderLock&) = delete;
  DataFolderLock& operator=(const DataFolderLock&) = delete;

 private:
  explicit DataFolderLock(int fd) : fd_(fd) {}
  const int fd_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_DATA_FOLDER_LOCK_H_

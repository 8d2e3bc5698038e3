// One process at a time for a folder on a file system without flock(2).
#ifndef LORSA_BASE_FOLDER_LEASE_H_
#define LORSA_BASE_FOLDER_LEASE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lorsa {

struct LeaseTimes {
  // The holder writes this often that it lives.
  absl::Duration beat = absl::Seconds(5);
  // A holder that writes nothing for this long has lost its lease. Zero: it is not waited for.
  absl::Duration patience = absl::Seconds(30);
};

// Ends this process: another one may write to the folder now.
void EndProcessWithoutLease(const std::string& lock_path);

// Held as long as it lives. All processes that share a folder use the same times. No clocks of
// machines are compared: who waits watches the holder's file change.
class FolderLease {
 public:
  // Takes the lease of the lock file `lock_path`. FAILED_PRECONDITION, naming the holder, if
  // another process has it; that is known after one beat. If the last holder was killed, waits for
  // `patience`. `lost` is called, on another thread, if this process stood still for so long that
  // another took the lease.
  static absl::StatusOr<std::unique_ptr<FolderLease>> Acquire(
      const std::string& lock_path, LeaseTimes times = {},
      std::function<void(const std::string& lock_path)> lost = EndProcessWithoutLease);
  ~FolderLease();
  FolderLease(const FolderLease&) = delete;
  FolderLease& operator=(const FolderLease&) = delete;

 private:
  FolderLease(std::string lock_path, int64_t number, LeaseTimes times,
              std::function<void(const std::string&)> lost);
  void Beat(const std::stop_token& stop);
  // NOT_FOUND if the lease was taken by another.
  absl::Status Renew(int64_t tick) const;

  const std::string lock_path_;
  const int64_t number_;
  const LeaseTimes times_;
  const std::function<void(const std::string&)> lost_;
  std::jthread thread_;
};

}  // namespace lorsa

#endif  // LORSA_BASE_FOLDER_LEASE_H_

// The operations of a FileSystem on a path of which the folder was found already: what
// PosixFileSystem and RootedFileSystem share. Internal to base.
#ifndef LORSA_BASE_PATH_AT_H_
#define LORSA_BASE_PATH_AT_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace lorsa {

// Owns a descriptor; -1 is none.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// `name` as seen from the open folder `folder`, or from the working folder (AT_FDCWD).
struct PathAt {
  int folder;
  std::string name;
  const std::string& path;  // for messages
  // Of a folder to be listed or synced; files are never opened through a link in this place.
  bool follow_last_link = true;
};

// The error of opening a folder without following a link: one that is a link is called so, which
// the system's ENOTDIR does not.
absl::Status FolderError(int error, absl::string_view operation, const PathAt& at);

// As the methods of FileSystem.
absl::StatusOr<std::unique_ptr<WritableFile>> CreateAt(const PathAt& at, mode_t mode);
absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppendAt(const PathAt& at, mode_t mode);
absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReadAt(const PathAt& at);
absl::Status SyncFileAt(const PathAt& at);
absl::Status SyncDirectoryAt(const PathAt& at);
absl::Status RenameAt(const PathAt& from, const PathAt& to);
absl::Status RemoveAt(const PathAt& at);
absl::Status RemoveAllAt(const PathAt& at);
absl::StatusOr<bool> ExistsAt(const PathAt& at);
absl::StatusOr<std::vector<std::string>> ListAt(const PathAt& at);
absl::StatusOr<uint64_t> FreeBytesAt(const PathAt& at);

}  // namespace lorsa

#endif  // LORSA_BASE_PATH_AT_H_

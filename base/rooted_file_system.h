// A file system that does not leave the folders it was given.
#ifndef LORSA_BASE_ROOTED_FILE_SYSTEM_H_
#define LORSA_BASE_ROOTED_FILE_SYSTEM_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "base/path_at.h"

namespace lorsa {

// Every path must be one of the roots or lie below it. Links on the way to a root are followed, so
// that a root may be one (a disk that was moved); below it none is, in no place of a path, so that
// nobody who may write there leads a reader elsewhere. Checking and opening are one step of the
// kernel (openat2), or a walk from folder to folder where it lacks that.
//
// Errors are those of FileSystem, and: PERMISSION_DENIED for a path outside of the roots,
// INVALID_ARGUMENT for one with a link, "." or ".." in it. Thread-safe.
class RootedFileSystem final : public FileSystem {
 public:
  // `roots` are absolute; they need not exist yet. Of roots inside each other the innermost counts.
  explicit RootedFileSystem(std::vector<std::string> roots);

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       mode_t mode = 0644) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                              mode_t mode = 0644) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override;
  absl::Status SyncFile(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  // Not of a root itself, nor above it.
  absl::Status CreateDirectories(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status RemoveAll(const std::string& path) override;
  absl::StatusOr<bool> Exists(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override;

 private:
  // The open folder of a path, and the path seen from there. `path` outlives it.
  struct Place {
    Descriptor folder;
    PathAt at;
  };
  absl::StatusOr<Place> Locate(const std::string& path) const;
  absl::Status CreateFolder(const std::string& path);  // whose parent is there; OK if it is too

  const std::vector<std::string> roots_;  // normal, the longest first
};

// Opens the folder `relative` ("" is `root` itself) as seen from the open folder `root`, through no
// link: in one step, or walking. Both give the same answers; apart for tests.
absl::StatusOr<Descriptor> OpenFolderBeneath(int root, const std::string& relative,
                                             const std::string& path);
absl::StatusOr<Descriptor> WalkBeneath(int root, const std::string& relative,
                                       const std::string& path);

}  // namespace lorsa

#endif  // LORSA_BASE_ROOTED_FILE_SYSTEM_H_

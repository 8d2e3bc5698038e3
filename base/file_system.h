// The one interface through which durable state reaches the disk, so that a test can make each
// operation fail. Paths are absolute or relative to the process; nothing here builds a path from
// outside input (see identifiers.h for that).
#ifndef LORSA_BASE_FILE_SYSTEM_H_
#define LORSA_BASE_FILE_SYSTEM_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lorsa {

// A file opened for appending. One thread at a time.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::string_view data) = 0;
  // fsync. A failed Sync must not be retried as if it could succeed: the kernel may have dropped
  // the pages. Give the file up and write it anew.
  virtual absl::Status Sync() = 0;
  // Closes; the destructor closes too, but swallows the error.
  virtual absl::Status Close() = 0;
};

// A file opened for positioned reads. All methods may be called from many threads at once.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Fills `out` from `offset` on. OUT_OF_RANGE if the file ends before.
  virtual absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const = 0;
  virtual uint64_t size() const = 0;
};

// Errors are canonical: NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED (no space
// left, quota), UNAVAILABLE (EIO), else INTERNAL; the message names operation and path.
// Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates or truncates a regular file, as OpenForAppend. Descriptors here are close-on-exec.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                               mode_t mode = 0644) = 0;
  // Goes on after the last byte of a regular file, created empty if absent. A symbolic link in the
  // last component is refused.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                                      mode_t mode = 0644) = 0;
  // Opens a regular file; a symbolic link in the last component is refused.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) = 0;
  // fsync of a file that another library wrote and closed.
  virtual absl::Status SyncFile(const std::string& path) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // rename(2): atomic, replaces a file, not a folder that has entries.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status CreateDirectories(const std::string& path) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;     // one file; NOT_FOUND if absent
  virtual absl::Status RemoveAll(const std::string& path) = 0;  // a tree; OK if absent
  virtual absl::StatusOr<bool> Exists(const std::string& path) = 0;
  // Names of the entries, sorted, without "." and "..".
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  virtual absl::StatusOr<uint64_t> FreeBytes(const std::string& path) = 0;
};

class PosixFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       mode_t mode = 0644) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                              mode_t mode = 0644) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override;
  absl::Status SyncFile(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status CreateDirectories(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status RemoveAll(const std::string& path) override;
  absl::StatusOr<bool> Exists(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override;
};

// Replaces the file at `path` by `contents`: after a crash at any moment the path holds the old
// contents or the new, whole. On error the old contents stand and no temporary file is left.
absl::Status WriteFileAtomically(FileSystem& fs, const std::string& path,
                                 absl::string_view contents, mode_t mode = 0644);

// The whole file, or RESOURCE_EXHAUSTED if it is longer than `max_bytes` (checked before memory is
// taken).
absl::StatusOr<std::string> ReadFile(FileSystem& fs, const std::string& path, uint64_t max_bytes);

// "/a/b" for "/a/b/c", "." for a bare name.
std::string DirectoryOf(const std::string& path);

// `a`/`b` with one slash between.
std::string JoinPath(absl::string_view a, absl::string_view b);

// The canonical Status of an errno value: "`operation` `path`: No space left on device".
absl::Status ErrnoStatus(int error, absl::string_view operation, absl::string_view path);

}  // namespace lorsa

#endif  // LORSA_BASE_FILE_SYSTEM_H_

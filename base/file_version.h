// Tells whether a file is still the one that was looked at before.
#ifndef LORSA_BASE_FILE_VERSION_H_
#define LORSA_BASE_FILE_VERSION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "base/file_system.h"

namespace lorsa {

// A write to a file, and a rename or link of it, changes its version; so does another file in its
// place.
struct FileVersion {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;       // bytes
  int64_t change_ns = 0;  // since the Unix epoch: when contents or entry last changed

  bool operator==(const FileVersion&) const = default;
};

// An open file of the system, as PosixFileSystem and RootedFileSystem return it.
class VersionedFile : public ReadableFile {
 public:
  virtual absl::StatusOr<FileVersion> Version() const = 0;
};

// INTERNAL for a file that is not a VersionedFile.
absl::StatusOr<FileVersion> VersionOf(const ReadableFile& file);

}  // namespace lorsa

#endif  // LORSA_BASE_FILE_VERSION_H_

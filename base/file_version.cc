#include "base/file_version.h"

#include "absl/status/status.h"

namespace lorsa {

absl::StatusOr<FileVersion> VersionOf(const ReadableFile& file) {
  const auto* const versioned = dynamic_cast<const VersionedFile*>(&file);
  if (versioned == nullptr)
    return absl::InternalError("the file system keeps no versions of files");
  return versioned->Version();
}

}  // namespace lorsa

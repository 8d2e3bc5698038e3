// Names in a folder that need not be there.
#ifndef LORSA_SERVER_JOBS_LIST_IF_THERE_H_
#define LORSA_SERVER_JOBS_LIST_IF_THERE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"

namespace lorsa::server {

// As FileSystem::List; empty if there is no such folder.
inline absl::StatusOr<std::vector<std::string>> ListIfThere(FileSystem& fs,
                                                            const std::string& folder) {
  absl::StatusOr<std::vector<std::string>> names = fs.List(folder);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_LIST_IF_THERE_H_

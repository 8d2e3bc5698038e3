// The generation of a data folder (data_adoption.h).
#ifndef LORSA_SERVER_JOBS_FOLDER_GENERATION_H_
#define LORSA_SERVER_JOBS_FOLDER_GENERATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "server/model/data_layout.h"

namespace lorsa::server {

// 0 if no server has counted yet. DATA_LOSS if the file holds something else.
absl::StatusOr<int64_t> ReadFolderGeneration(FileSystem& fs, const DataLayout& layout);
absl::Status WriteFolderGeneration(FileSystem& fs, const DataLayout& layout, int64_t generation);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_FOLDER_GENERATION_H_

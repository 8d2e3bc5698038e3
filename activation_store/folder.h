// The files of a set's folder, opened and held against its manifest.
#ifndef LORSA_ACTIVATION_STORE_FOLDER_H_
#define LORSA_ACTIVATION_STORE_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "activation_store/checksums.h"
#include "activation_store/manifest.h"
#include "activation_store/shard_reader.h"
#include "base/file_system.h"

namespace lorsa::store {

struct SealedManifest {
  Manifest manifest;
  std::string sha256;  // of manifest.json, hex
};

// NOT_FOUND if the folder is missing, FAILED_PRECONDITION if it has no manifest, DATA_LOSS naming
// the file if that does not parse.
absl::StatusOr<SealedManifest> ReadManifest(FileSystem& fs, const std::string& folder);

// DATA_LOSS naming the file if it has another size than the manifest says.
absl::Status CheckFileSize(FileSystem& fs, const std::string& folder, const FileRecord& record);

// The shard of `record`, its size, sequences and shape as the manifest says.
absl::StatusOr<ShardReader::Opened> OpenShard(FileSystem& fs, const std::string& folder,
                                              const Manifest& manifest, const ShardRecord& record);

absl::StatusOr<ChecksumsReader> OpenChecksums(FileSystem& fs, const std::string& folder,
                                              const Manifest& manifest);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_FOLDER_H_

// A checkpoint's folder held against its manifest (docs/checkpoint_format.md). Knows nothing of
// tensors.
#ifndef LORSA_SERVER_JOBS_CHECKPOINT_FILES_H_
#define LORSA_SERVER_JOBS_CHECKPOINT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "lorsa/v1/checkpoint_service.pb.h"

namespace lorsa::server {

inline constexpr char kManifestFile[] = "manifest.json";

// sha256 (hex) of the checkpoint's manifest; empty if it lists none.
std::string ManifestSha256(const v1::Checkpoint& checkpoint);

// Whether `folder` holds this very checkpoint, by its manifest.
bool IsFolderOf(FileSystem& fs, const std::string& folder, const v1::Checkpoint& checkpoint);

// Whether VerifyCheckpointFiles, below, said that files are not as they should be, which no later
// try changes.
bool IsDamage(const absl::Status& status);

// The files of `folder` as its manifest lists them, manifest.json included, in order of name: names
// are valid and sizes not negative, nothing else was looked at. Errors as below.
absl::StatusOr<std::vector<v1::CheckpointFile>> ReadCheckpointManifest(
    FileSystem& fs, const std::string& folder, const std::string& manifest_sha256);

// The same, whatever the sha256 of the manifest is.
absl::StatusOr<std::vector<v1::CheckpointFile>> ReadCheckpointManifest(FileSystem& fs,
                                                                       const std::string& folder);

// All files of `folder`, manifest.json included, in order of name, after each was read and compared
// with what the manifest says. `manifest_sha256` (hex) is what the manifest itself must have.
// NOT_FOUND if the folder or a file is missing, INVALID_ARGUMENT for a manifest of the wrong form
// or a file that it does not list, DATA_LOSS for a size or sha256 that differs.
absl::StatusOr<std::vector<v1::CheckpointFile>> VerifyCheckpointFiles(
    FileSystem& fs, const std::string& folder, const std::string& manifest_sha256);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_CHECKPOINT_FILES_H_

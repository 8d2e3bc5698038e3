#include "activation_store/folder.h"

#include "absl/strings/str_cat.h"
#include "activation_store/hdf5_library.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

absl::Status CheckSize(const std::string& path, uint64_t bytes, const FileRecord& record) {
  if (bytes == static_cast<uint64_t>(record.bytes)) return absl::OkStatus();
  return DamagedFile(
      path, absl::StrCat("has ", bytes, " bytes instead of ", record.bytes, "; restore the file"));
}

}  // namespace

absl::StatusOr<SealedManifest> ReadManifest(FileSystem& fs, const std::string& folder) {
  const std::string path = JoinPath(folder, kManifestFile);
  LORSA_ASSIGN_OR_RETURN(const bool sealed, fs.Exists(path));
  if (!sealed) {
    LORSA_ASSIGN_OR_RETURN(const bool exists, fs.Exists(folder));
    if (!exists) return absl::NotFoundError(absl::StrCat(folder, ": no such folder"));
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": the set is not sealed (it has no manifest.json); seal it first"));
  }
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kMaxManifestBytes));
  auto manifest = ParseManifest(text);
  if (!manifest.ok()) return DamagedFile(path, manifest.status().message());
  return SealedManifest{.manifest = *std::move(manifest), .sha256 = Sha256Hex(text)};
}

absl::Status CheckFileSize(FileSystem& fs, const std::string& folder, const FileRecord& record) {
  const std::string path = JoinPath(folder, record.file);
  LORSA_ASSIGN_OR_RETURN(const auto file, fs.OpenForRead(path));
  return CheckSize(path, file->size(), record);
}

absl::StatusOr<ShardReader::Opened> OpenShard(FileSystem& fs, const std::string& folder,
                                              const Manifest& manifest, const ShardRecord& record) {
  // The size first: it tells truncation in plain words.
  LORSA_RETURN_IF_ERROR(CheckFileSize(fs, folder, record));
  LORSA_ASSIGN_OR_RETURN(ShardReader::Opened opened,
                         ShardReader::Open(fs, JoinPath(folder, record.file)));
  const ShardShape set = {.context = manifest.context,
                          .d_model = manifest.d_model,
                          .element_type = manifest.element_type};
  LORSA_RETURN_IF_ERROR(opened.shard->shape().CheckFits(opened.shard->path(), set));
  if (opened.shard->shape().sequences != record.sequences) {
    return DamagedFile(opened.shard->path(),
                       absl::StrCat("has ", opened.shard->shape().sequences,
                                    " sequences instead of ", record.sequences));
  }
  return opened;
}

absl::StatusOr<ChecksumsReader> OpenChecksums(FileSystem& fs, const std::string& folder,
                                              const Manifest& manifest) {
  std::vector<int64_t> sequences;
  for (const ShardRecord& shard : manifest.shards) sequences.push_back(shard.sequences);
  return ChecksumsReader::Open(fs, JoinPath(folder, kChecksumsFile), sequences);
}

}  // namespace lorsa::store

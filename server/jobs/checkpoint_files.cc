#include "server/jobs/checkpoint_files.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/identifiers.h"
#include "base/json_fields.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

constexpr uint64_t kMaxManifestBytes = 1 << 20;
constexpr size_t kMaxFiles = 64;
constexpr int kMaxManifestDepth = 16;

absl::Status BadManifest(const std::string& folder, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(JoinPath(folder, kManifestFile), ": ", what));
}

// One entry of the manifest's "files": {"NAME": {"bytes": N, "sha256": "HEX"}}.
absl::StatusOr<v1::CheckpointFile> ParseFile(const std::string& folder, const std::string& name,
                                             const nlohmann::json& value) {
  if (!ValidateId("file name", name).ok() || name == kManifestFile || !value.is_object()) {
    return BadManifest(folder, "an entry of \"files\" is not valid");
  }
  JsonFields fields(value, absl::StrCat("files.", name));
  v1::CheckpointFile file;
  file.set_name(name);
  file.set_size_bytes(fields.Integer("bytes", 0, std::numeric_limits<int64_t>::max()));
  file.set_sha256(fields.Text("sha256"));
  if (const absl::Status status = fields.Finish(); !status.ok()) {
    return BadManifest(folder, status.message());
  }
  return file;
}

absl::StatusOr<std::vector<v1::CheckpointFile>> ParseManifestFiles(const std::string& folder,
                                                                   const std::string& text) {
  const absl::StatusOr<nlohmann::json> manifest = ParseJsonObject(text, kMaxManifestDepth);
  if (!manifest.ok()) return BadManifest(folder, manifest.status().message());
  const auto entries = manifest->find("files");
  if (entries == manifest->end() || !entries->is_object() || entries->size() > kMaxFiles) {
    return BadManifest(folder, absl::StrCat("needs an object \"files\" of at most ", kMaxFiles));
  }
  std::vector<v1::CheckpointFile> files;
  for (const auto& [name, value] : entries->items()) {
    LORSA_ASSIGN_OR_RETURN(v1::CheckpointFile file, ParseFile(folder, name, value));
    files.push_back(std::move(file));
  }
  return files;
}

absl::Status VerifyFile(FileSystem& fs, const std::string& folder,
                        const v1::CheckpointFile& expected) {
  const std::string path = JoinPath(folder, expected.name());
  LORSA_ASSIGN_OR_RETURN(const auto file, fs.OpenForRead(path));
  if (file->size() != static_cast<uint64_t>(expected.size_bytes())) {
    return absl::DataLossError(absl::StrCat(path, " has ", file->size(),
                                            " bytes, its manifest says ", expected.size_bytes()));
  }
  LORSA_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(fs, path));
  if (sha256 == expected.sha256()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, " has sha256 ", sha256, ", its manifest says ", expected.sha256()));
}

absl::Status VerifyNoOthers(FileSystem& fs, const std::string& folder,
                            const std::vector<v1::CheckpointFile>& files) {
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(folder));
  for (const std::string& name : names) {
    const bool listed = std::any_of(files.begin(), files.end(),
                                    [&](const auto& file) { return file.name() == name; });
    if (!listed) {
      return absl::InvalidArgumentError(
          absl::StrCat(JoinPath(folder, name), " is not listed in its manifest"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadManifestText(FileSystem& fs, const std::string& folder) {
  const std::string path = JoinPath(folder, kManifestFile);
  LORSA_ASSIGN_OR_RETURN(const auto file, fs.OpenForRead(path));
  // Not left to ReadFile, whose RESOURCE_EXHAUSTED would read as a full disk.
  if (file->size() > kMaxManifestBytes) {
    return BadManifest(folder, absl::StrCat("has more than ", kMaxManifestBytes, " bytes"));
  }
  return ReadFile(fs, path, kMaxManifestBytes);
}

// Those of the manifest `text`, and the manifest itself, in order of name.
absl::StatusOr<std::vector<v1::CheckpointFile>> ListedFiles(const std::string& folder,
                                                            const std::string& text) {
  LORSA_ASSIGN_OR_RETURN(std::vector<v1::CheckpointFile> files, ParseManifestFiles(folder, text));
  v1::CheckpointFile& manifest = files.emplace_back();
  manifest.set_name(kManifestFile);
  manifest.set_size_bytes(static_cast<int64_t>(text.size()));
  manifest.set_sha256(Sha256Hex(text));
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  return files;
}

}  // namespace

std::string ManifestSha256(const v1::Checkpoint& checkpoint) {
  for (const v1::CheckpointFile& file : checkpoint.files()) {
    if (file.name() == kManifestFile) return file.sha256();
  }
  return "";
}

bool IsFolderOf(FileSystem& fs, const std::string& folder, const v1::Checkpoint& checkpoint) {
  const absl::StatusOr<std::string> sha256 = Sha256OfFile(fs, JoinPath(folder, kManifestFile));
  return sha256.ok() && *sha256 == ManifestSha256(checkpoint);
}

bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsInvalidArgument(status);
}

absl::StatusOr<std::vector<v1::CheckpointFile>> ReadCheckpointManifest(FileSystem& fs,
                                                                       const std::string& folder) {
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadManifestText(fs, folder));
  return ListedFiles(folder, text);
}

absl::StatusOr<std::vector<v1::CheckpointFile>> ReadCheckpointManifest(
    FileSystem& fs, const std::string& folder, const std::string& manifest_sha256) {
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadManifestText(fs, folder));
  if (Sha256Hex(text) != manifest_sha256) {
    return absl::DataLossError(absl::StrCat(JoinPath(folder, kManifestFile), " has sha256 ",
                                            Sha256Hex(text), ", not ", manifest_sha256));
  }
  return ListedFiles(folder, text);
}

absl::StatusOr<std::vector<v1::CheckpointFile>> VerifyCheckpointFiles(
    FileSystem& fs, const std::string& folder, const std::string& manifest_sha256) {
  LORSA_ASSIGN_OR_RETURN(std::vector<v1::CheckpointFile> files,
                         ReadCheckpointManifest(fs, folder, manifest_sha256));
  for (const v1::CheckpointFile& file : files) {
    LORSA_RETURN_IF_ERROR(VerifyFile(fs, folder, file));
  }
  LORSA_RETURN_IF_ERROR(VerifyNoOthers(fs, folder, files));
  return files;
}

}  // namespace lorsa::server

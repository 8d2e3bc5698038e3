#include "server/services/set_uploads.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "activation_store/manifest.h"
#include "base/error_details.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "server/services/set_folders.h"

namespace lorsa::server {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 40;

bool IsShardFile(absl::string_view name) {
  int64_t number = 0;
  return absl::ConsumePrefix(&name, "shard-") && absl::ConsumeSuffix(&name, ".h5") &&
         absl::SimpleAtoi(name, &number) && number >= 0 && number < store::kMaxShards &&
         store::ShardFile(number) == absl::StrCat("shard-", name, ".h5");
}

bool IsFileOfASet(const std::string& name) {
  return IsShardFile(name) || name == store::kAttentionFile || name == store::kChecksumsFile ||
         name == store::kManifestFile;
}

IncomingFile FileOf(const v1::UploadStart& start, const std::string& folder) {
  return {.folder = folder,
          .name = start.file(),
          .size_bytes = start.size_bytes(),
          .sha256 = start.sha256(),
          .offset = start.offset()};
}

}  // namespace

absl::Status CheckUploadStart(const v1::UploadStart& start) {
  std::vector<FieldViolation> violations = CheckIncomingFile(FileOf(start, ""), kMaxFileBytes);
  if (const absl::Status id = ValidateId("activation_set_id", start.activation_set_id());
      !id.ok()) {
    violations.push_back({"activation_set_id", std::string(id.message())});
  }
  if (!IsFileOfASet(start.file())) {
    violations.push_back(
        {"file",
         "must be shard-00000.h5 and so on, attention.safetensors, checksums.h5 or "
         "manifest.json"});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

std::string SetUploads::Folder(const std::string& id) const { return JoinPath(sets_folder_, id); }

std::string SetUploads::IdOf(const std::string& folder) const {
  const std::string id = std::filesystem::path(folder).filename().string();
  if (!ValidateId("activation_set_id", id).ok() || !IsSameFolder(Folder(id), folder)) return "";
  return id;
}

absl::StatusOr<std::unique_ptr<FileReceiver>> SetUploads::Receive(const v1::UploadStart& start,
                                                                  std::shared_ptr<void> claim) {
  IncomingFile file = FileOf(start, Folder(start.activation_set_id()));
  file.claim = std::move(claim);
  auto receiver = files_.Receive(file);
  if (!absl::IsAlreadyExists(receiver.status())) return receiver;
  return absl::AlreadyExistsError(
      absl::StrCat(receiver.status().message(), ": choose another id for the set"));
}

absl::StatusOr<v1::Upload> SetUploads::Describe(const std::string& id) const {
  return files_.Describe(Folder(id), IsFileOfASet);
}

absl::Status SetUploads::CheckComplete(const std::string& id) const {
  LORSA_ASSIGN_OR_RETURN(const v1::Upload upload, Describe(id));
  if (upload.files().empty()) {
    return absl::NotFoundError(absl::StrCat("nothing was uploaded for ", id,
                                            ": send its shards first, or name the path of a folder "
                                            "on the server"));
  }
  for (const v1::UploadedFile& file : upload.files()) {
    if (file.complete()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(file.file(), " of ", id, " was not sent to its end: finish its upload first"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SetUploads::Sealed() const {
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> ids, fs_.List(sets_folder_));
  std::vector<std::string> sealed;
  for (const std::string& id : ids) {
    if (!ValidateId("activation set id", id).ok()) continue;
    LORSA_ASSIGN_OR_RETURN(const bool has_manifest,
                           fs_.Exists(JoinPath(Folder(id), store::kManifestFile)));
    if (has_manifest) sealed.push_back(id);
  }
  return sealed;
}

absl::Status SetUploads::Remove(const std::string& id) { return fs_.RemoveAll(Folder(id)); }

}  // namespace lorsa::server

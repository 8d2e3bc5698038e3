// The numbers are those of the protocol in set_uploads.h.
#include "server/services/set_uploads.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "activation_store/manifest.h"
#include "base/crc32c.h"
#include "base/identifiers.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "server/rpc/errors.h"

namespace lorsa::server {
namespace {

constexpr char kPartialPrefix[] = "upload-";
constexpr size_t kMaxPieceBytes = 1 << 20;
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

bool IsSha256(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// Bytes of a file; 0 if it is not there.
absl::StatusOr<int64_t> SizeOf(FileSystem& fs, const std::string& path) {
  const auto file = fs.OpenForRead(path);
  if (absl::IsNotFound(file.status())) return 0;
  if (!file.ok()) return file.status();
  return static_cast<int64_t>((*file)->size());
}

v1::UploadedFile Describe(const std::string& name, int64_t bytes, bool complete) {
  v1::UploadedFile file;
  file.set_file(name);
  file.set_received_bytes(bytes);
  file.set_complete(complete);
  return file;
}

// For a file that was complete already: whatever comes is not needed.
class NothingToReceive final : public SetUploads::Sink {
 public:
  explicit NothingToReceive(v1::UploadedFile file) : file_(std::move(file)) {}
  absl::Status OnMessage(const v1::UploadShardRequest&) override { return absl::OkStatus(); }
  absl::StatusOr<v1::UploadedFile> Finish() override { return file_; }

 private:
  const v1::UploadedFile file_;
};

}  // namespace

class SetUploads::Claim {
 public:
  Claim(SetUploads& uploads, std::string path) : uploads_(uploads), path_(std::move(path)) {}
  ~Claim() {
    absl::MutexLock lock(&uploads_.mu_);
    uploads_.claimed_.erase(path_);
  }

 private:
  SetUploads& uploads_;
  const std::string path_;
};

namespace {

struct ReceivedFile {
  std::string folder;
  std::string partial_path;
  std::string path;
  v1::UploadStart start;
};

class FileReceiver final : public SetUploads::Sink {
 public:
  FileReceiver(FileSystem& fs, ReceivedFile file, std::shared_ptr<void> claim,
               std::unique_ptr<WritableFile> partial)
      : fs_(fs),
        file_(std::move(file)),
        claim_(std::move(claim)),
        partial_(std::move(partial)),
        received_(file_.start.offset()) {}

  absl::Status OnMessage(const v1::UploadShardRequest& message) override {  // 2
    if (!message.has_data()) {
      return absl::InvalidArgumentError("only the first message may name a file");
    }
    const std::string& data = message.data().data();
    if (data.size() > kMaxPieceBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a piece has ", data.size(), " bytes; send at most ", kMaxPieceBytes));
    }
    if (Crc32c(data) != message.data().crc32c()) {
      return absl::DataLossError(absl::StrCat(file_.start.file(),
                                              ": a piece does not match its checksum; send the "
                                              "rest again"));
    }
    if (received_ + static_cast<int64_t>(data.size()) > file_.start.size_bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_.start.file(), " has more bytes than were announced"));
    }
    LORSA_RETURN_IF_ERROR(partial_->Append(data));
    received_ += static_cast<int64_t>(data.size());
    return absl::OkStatus();
  }

  absl::StatusOr<v1::UploadedFile> Finish() override {
    LORSA_RETURN_IF_ERROR(partial_->Sync());
    LORSA_RETURN_IF_ERROR(partial_->Close());
    if (received_ < file_.start.size_bytes()) {
      return Describe(file_.start.file(), received_, /*complete=*/false);
    }
    LORSA_RETURN_IF_ERROR(CompareWithAnnounced());                      // 3
    LORSA_RETURN_IF_ERROR(fs_.Rename(file_.partial_path, file_.path));  // 4
    LORSA_RETURN_IF_ERROR(fs_.SyncDirectory(file_.folder));
    return Describe(file_.start.file(), received_, /*complete=*/true);
  }

 private:
  absl::Status CompareWithAnnounced() {
    LORSA_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(fs_, file_.partial_path));
    if (sha256 == file_.start.sha256()) return absl::OkStatus();
    LORSA_RETURN_IF_ERROR(fs_.Remove(file_.partial_path));
    return absl::DataLossError(absl::StrCat(file_.start.file(), " has the sha256 ", sha256,
                                            ", not the one announced; it was dropped: send it from "
                                            "the beginning"));
  }

  FileSystem& fs_;
  const ReceivedFile file_;
  const std::shared_ptr<void> claim_;
  const std::unique_ptr<WritableFile> partial_;
  int64_t received_;
};

// Waits for the first message.
class UploadSink final : public SetUploads::Sink {
 public:
  using Open =
      std::function<absl::StatusOr<std::unique_ptr<SetUploads::Sink>>(const v1::UploadStart&)>;
  explicit UploadSink(Open open) : open_(std::move(open)) {}

  absl::Status OnMessage(const v1::UploadShardRequest& message) override {
    if (receiver_ != nullptr) return receiver_->OnMessage(message);
    if (!message.has_start()) return NoStart();
    LORSA_ASSIGN_OR_RETURN(receiver_, open_(message.start()));
    return absl::OkStatus();
  }
  absl::StatusOr<v1::UploadedFile> Finish() override {
    return receiver_ == nullptr ? NoStart() : receiver_->Finish();
  }

 private:
  static absl::Status NoStart() {
    return absl::InvalidArgumentError("the first message must name the file that is sent");
  }

  const Open open_;
  std::unique_ptr<SetUploads::Sink> receiver_;
};

}  // namespace

std::unique_ptr<SetUploads::Sink> MakeUploadSink(UploadSink::Open open) {
  return std::make_unique<UploadSink>(std::move(open));
}

absl::Status CheckUploadStart(const v1::UploadStart& start) {
  std::vector<FieldViolation> violations;
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
  if (start.size_bytes() < 1 || start.size_bytes() > kMaxFileBytes) {
    violations.push_back({"size_bytes", absl::StrCat("must be 1 to ", kMaxFileBytes)});
  }
  if (!IsSha256(start.sha256())) {
    violations.push_back({"sha256", "must be 64 digits in lower-case hexadecimal"});
  }
  if (start.offset() < 0 || start.offset() > start.size_bytes()) {
    violations.push_back({"offset", "must be 0 to size_bytes"});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

std::string SetUploads::Folder(const std::string& id) const { return JoinPath(sets_folder_, id); }

absl::StatusOr<std::unique_ptr<SetUploads::Claim>> SetUploads::Take(const std::string& path) {
  absl::MutexLock lock(&mu_);
  if (!claimed_.insert(path).second) {
    return WithReason(
        absl::UnavailableError("another call sends this file just now: try again once it ended"),
        "UPLOAD_IN_PROGRESS");
  }
  return std::make_unique<Claim>(*this, path);
}

absl::Status SetUploads::CheckRoom(int64_t bytes) const {
  LORSA_ASSIGN_OR_RETURN(const uint64_t free_bytes, fs_.FreeBytes(sets_folder_));
  if (static_cast<int64_t>(free_bytes) - bytes >= disk_reserve_bytes_) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "the server's disk has ", free_bytes, " bytes free, of which ", disk_reserve_bytes_,
          " are in reserve: ", bytes, " more do not fit; make room there and try again")),
      "DISK_RESERVE");
}

absl::StatusOr<std::unique_ptr<SetUploads::Sink>> SetUploads::Receive(  // 1
    const v1::UploadStart& start) {
  const std::string folder = Folder(start.activation_set_id());
  ReceivedFile file{.folder = folder,
                    .partial_path = JoinPath(folder, kPartialPrefix + start.file()),
                    .path = JoinPath(folder, start.file()),
                    .start = start};
  LORSA_ASSIGN_OR_RETURN(std::shared_ptr<void> claim, Take(file.path));
  LORSA_ASSIGN_OR_RETURN(const bool complete, fs_.Exists(file.path));
  if (complete) {
    LORSA_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(fs_, file.path));
    if (sha256 == start.sha256()) {
      return std::make_unique<NothingToReceive>(
          server::Describe(start.file(), start.size_bytes(), /*complete=*/true));
    }
    return absl::AlreadyExistsError(
        absl::StrCat(start.file(), " of ", start.activation_set_id(),
                     " was uploaded already and is another file: choose another id for the set"));
  }
  LORSA_ASSIGN_OR_RETURN(const int64_t received, SizeOf(fs_, file.partial_path));
  if (received != start.offset()) {
    return WithReason(
        absl::AbortedError(absl::StrCat("the server has ", received, " bytes of ", start.file(),
                                        ", not ", start.offset(), ": go on from there")),
        "OFFSET_MISMATCH", {{"received_bytes", absl::StrCat(received)}});
  }
  LORSA_RETURN_IF_ERROR(CheckRoom(start.size_bytes() - received));
  LORSA_RETURN_IF_ERROR(fs_.CreateDirectories(folder));
  LORSA_RETURN_IF_ERROR(fs_.SyncDirectory(sets_folder_));
  LORSA_ASSIGN_OR_RETURN(auto partial, fs_.OpenForAppend(file.partial_path));
  return std::make_unique<FileReceiver>(fs_, std::move(file), std::move(claim), std::move(partial));
}

absl::StatusOr<v1::Upload> SetUploads::Describe(const std::string& id) const {
  v1::Upload upload;
  const auto names = fs_.List(Folder(id));
  if (absl::IsNotFound(names.status())) return upload;
  LORSA_RETURN_IF_ERROR(names.status());
  for (absl::string_view name : *names) {
    const std::string path = JoinPath(Folder(id), name);
    const bool complete = !absl::ConsumePrefix(&name, kPartialPrefix);
    if (!IsFileOfASet(std::string(name))) continue;
    LORSA_ASSIGN_OR_RETURN(const int64_t bytes, SizeOf(fs_, path));
    *upload.add_files() = server::Describe(std::string(name), bytes, complete);
  }
  std::sort(upload.mutable_files()->begin(), upload.mutable_files()->end(),
            [](const auto& a, const auto& b) { return a.file() < b.file(); });
  return upload;
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

absl::Status SetUploads::Remove(const std::string& id) { return fs_.RemoveAll(Folder(id)); }

}  // namespace lorsa::server

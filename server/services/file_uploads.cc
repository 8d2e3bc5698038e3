// The numbers are those of the protocol in file_uploads.h.
#include "server/services/file_uploads.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/crc32c.h"
#include "base/error_details.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

constexpr char kPartialPrefix[] = "upload-";
constexpr size_t kMaxPieceBytes = 1 << 20;

std::string PathOf(const IncomingFile& file) { return JoinPath(file.folder, file.name); }

std::string PartialPathOf(const IncomingFile& file) {
  return JoinPath(file.folder, kPartialPrefix + file.name);
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

v1::UploadedFile Received(const std::string& name, int64_t bytes, bool complete) {
  v1::UploadedFile file;
  file.set_file(name);
  file.set_received_bytes(bytes);
  file.set_complete(complete);
  return file;
}

// For a file that was complete already: whatever comes is not needed.
class NothingToReceive final : public FileReceiver {
 public:
  explicit NothingToReceive(v1::UploadedFile file) : file_(std::move(file)) {}
  absl::Status Append(const v1::UploadData&) override { return absl::OkStatus(); }
  absl::StatusOr<v1::UploadedFile> Finish() override { return file_; }

 private:
  const v1::UploadedFile file_;
};

class Appender final : public FileReceiver {
 public:
  Appender(FileSystem& fs, IncomingFile file, std::shared_ptr<void> claim,
           std::unique_ptr<WritableFile> partial)
      : fs_(fs),
        file_(std::move(file)),
        claim_(std::move(claim)),
        partial_(std::move(partial)),
        received_(file_.offset) {}

  absl::Status Append(const v1::UploadData& piece) override {  // 2
    const std::string& data = piece.data();
    if (data.size() > kMaxPieceBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a piece has ", data.size(), " bytes; send at most ", kMaxPieceBytes));
    }
    if (Crc32c(data) != piece.crc32c()) {
      return absl::DataLossError(
          absl::StrCat(file_.name, ": a piece does not match its checksum; send the rest again"));
    }
    if (received_ + static_cast<int64_t>(data.size()) > file_.size_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_.name, " has more bytes than were announced"));
    }
    LORSA_RETURN_IF_ERROR(partial_->Append(data));
    received_ += static_cast<int64_t>(data.size());
    return absl::OkStatus();
  }

  absl::StatusOr<v1::UploadedFile> Finish() override {
    absl::StatusOr<v1::UploadedFile> received = Complete();
    file_.claim = nullptr;  // before the client hears of it
    return received;
  }

 private:
  absl::StatusOr<v1::UploadedFile> Complete() {
    LORSA_RETURN_IF_ERROR(partial_->Sync());
    LORSA_RETURN_IF_ERROR(partial_->Close());
    if (received_ < file_.size_bytes) return Received(file_.name, received_, /*complete=*/false);
    LORSA_RETURN_IF_ERROR(CompareWithAnnounced());                           // 3
    LORSA_RETURN_IF_ERROR(fs_.Rename(PartialPathOf(file_), PathOf(file_)));  // 4
    LORSA_RETURN_IF_ERROR(fs_.SyncDirectory(file_.folder));
    return Received(file_.name, received_, /*complete=*/true);
  }

  absl::Status CompareWithAnnounced() {
    LORSA_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(fs_, PartialPathOf(file_)));
    if (sha256 == file_.sha256) return absl::OkStatus();
    LORSA_RETURN_IF_ERROR(fs_.Remove(PartialPathOf(file_)));
    return absl::DataLossError(absl::StrCat(file_.name, " has the sha256 ", sha256,
                                            ", not the one announced; it was dropped: send it from "
                                            "the beginning"));
  }

  FileSystem& fs_;
  IncomingFile file_;
  const std::shared_ptr<void> claim_;
  const std::unique_ptr<WritableFile> partial_;
  int64_t received_;
};

}  // namespace

class FileUploads::Claim {
 public:
  Claim(FileUploads& uploads, std::string path) : uploads_(uploads), path_(std::move(path)) {}
  ~Claim() {
    absl::MutexLock lock(&uploads_.mu_);
    uploads_.claimed_.erase(path_);
  }

 private:
  FileUploads& uploads_;
  const std::string path_;
};

std::vector<FieldViolation> CheckIncomingFile(const IncomingFile& file, int64_t max_bytes) {
  std::vector<FieldViolation> violations;
  if (file.size_bytes < 1 || file.size_bytes > max_bytes) {
    violations.push_back({"size_bytes", absl::StrCat("must be 1 to ", max_bytes)});
  }
  if (!IsSha256(file.sha256)) {
    violations.push_back({"sha256", "must be 64 digits in lower-case hexadecimal"});
  }
  if (file.offset < 0 || file.offset > file.size_bytes) {
    violations.push_back({"offset", "must be 0 to size_bytes"});
  }
  return violations;
}

absl::StatusOr<std::unique_ptr<FileUploads::Claim>> FileUploads::Take(const std::string& path) {
  absl::MutexLock lock(&mu_);
  if (!claimed_.insert(path).second) {
    return WithReason(
        absl::UnavailableError("another call sends this file just now: try again once it ended"),
        "UPLOAD_IN_PROGRESS");
  }
  return std::make_unique<Claim>(*this, path);
}

absl::StatusOr<bool> FileUploads::IsComplete(const IncomingFile& file) const {
  LORSA_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(PathOf(file)));
  if (!exists) return false;
  LORSA_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(fs_, PathOf(file)));
  if (sha256 == file.sha256) return true;
  if (!file.replaces) {
    return absl::AlreadyExistsError(
        absl::StrCat(file.name, " was uploaded already and is another file"));
  }
  LORSA_RETURN_IF_ERROR(fs_.Remove(PathOf(file)));
  return false;
}

absl::Status FileUploads::CheckOffset(const IncomingFile& file,
                                      const std::string& partial_path) const {
  LORSA_ASSIGN_OR_RETURN(int64_t received, SizeOf(fs_, partial_path));
  if (received > file.size_bytes) {
    LORSA_RETURN_IF_ERROR(fs_.Remove(partial_path));
    received = 0;
  }
  if (received == file.offset) return absl::OkStatus();
  return WithReason(
      absl::AbortedError(absl::StrCat("the server has ", received, " bytes of ", file.name,
                                      ", not ", file.offset, ": go on from there")),
      "OFFSET_MISMATCH", {{"received_bytes", absl::StrCat(received)}});
}

absl::Status FileUploads::CheckRoom(const std::string& folder, int64_t bytes) const {
  LORSA_ASSIGN_OR_RETURN(const uint64_t free_bytes, fs_.FreeBytes(folder));
  if (static_cast<int64_t>(free_bytes) - bytes >= disk_reserve_bytes_) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "the server's disk has ", free_bytes, " bytes free, of which ", disk_reserve_bytes_,
          " are in reserve: ", bytes, " more do not fit; make room there and try again")),
      "DISK_RESERVE");
}

absl::StatusOr<std::unique_ptr<FileReceiver>> FileUploads::Receive(const IncomingFile& file) {  // 1
  const std::string partial_path = PartialPathOf(file);
  const std::string parent = DirectoryOf(file.folder);
  LORSA_ASSIGN_OR_RETURN(std::shared_ptr<void> claim, Take(PathOf(file)));
  LORSA_ASSIGN_OR_RETURN(const bool complete, IsComplete(file));
  if (complete) {
    LORSA_RETURN_IF_ERROR(fs_.SyncDirectory(file.folder));  // 4, of a call that ended before it.
    return std::make_unique<NothingToReceive>(
        Received(file.name, file.size_bytes, /*complete=*/true));
  }
  LORSA_RETURN_IF_ERROR(CheckOffset(file, partial_path));
  LORSA_RETURN_IF_ERROR(CheckRoom(parent, file.size_bytes - file.offset));
  LORSA_RETURN_IF_ERROR(fs_.CreateDirectories(file.folder));
  LORSA_RETURN_IF_ERROR(fs_.SyncDirectory(parent));
  LORSA_ASSIGN_OR_RETURN(auto partial, fs_.OpenForAppend(partial_path));
  return std::make_unique<Appender>(fs_, file, std::move(claim), std::move(partial));
}

absl::StatusOr<v1::Upload> FileUploads::Describe(
    const std::string& folder, const std::function<bool(const std::string&)>& belongs) const {
  v1::Upload upload;
  const auto names = fs_.List(folder);
  if (absl::IsNotFound(names.status())) return upload;
  LORSA_RETURN_IF_ERROR(names.status());
  for (absl::string_view name : *names) {
    const std::string path = JoinPath(folder, name);
    const bool complete = !absl::ConsumePrefix(&name, kPartialPrefix);
    if (!belongs(std::string(name))) continue;
    LORSA_ASSIGN_OR_RETURN(const int64_t bytes, SizeOf(fs_, path));
    *upload.add_files() = Received(std::string(name), bytes, complete);
  }
  std::sort(upload.mutable_files()->begin(), upload.mutable_files()->end(),
            [](const auto& a, const auto& b) { return a.file() < b.file(); });
  return upload;
}

}  // namespace lorsa::server

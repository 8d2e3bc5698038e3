// How a checkpoint reaches its folder:
//   1. ask the server for the list of files; refuse names, sizes and checksums that do not hold
//   2. if `folder` has them all already, done
//   3. make `folder`.partial; what it holds from an earlier try stays; check the room on the disk
//   4. each file: hash what is there, append the rest chunk by chunk (CRC-32C each), compare the
//      sha256 of the whole, fsync. A mismatch removes the file; one that was resumed is then
//      fetched once more from its first byte
//   5. fsync `folder`.partial, rename it to `folder`, fsync the folder above
// A crash before 5 leaves `folder`.partial alone, which the next try takes up at 3.
#include "lorsa/client/checkpoint_download.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/file_system.h"
#include "base/identifiers.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace lorsa::client {
namespace {

constexpr int kMaxFiles = 1'000;
constexpr int64_t kMaxTotalBytes = int64_t{1} << 46;  // 64 TiB
constexpr int kMaxDamagedChunks = 5;                  // in a row

bool IsSha256(absl::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

// 1: the total size of the files, or why the list cannot be an honest one.
absl::StatusOr<int64_t> CheckFiles(const v1::Checkpoint& checkpoint) {
  if (checkpoint.files().empty() || checkpoint.files_size() > kMaxFiles) {
    return absl::InvalidArgumentError(absl::StrCat("the server lists ", checkpoint.files_size(),
                                                   " files for ", checkpoint.name(),
                                                   "; a checkpoint has 1 to ", kMaxFiles));
  }
  std::set<std::string> names;
  int64_t total = 0;
  for (const v1::CheckpointFile& file : checkpoint.files()) {
    LORSA_RETURN_IF_ERROR(ValidateId("file name from the server", file.name()));
    if (!names.insert(file.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("the server lists ", file.name(), " twice"));
    }
    if (file.size_bytes() < 0 || file.size_bytes() > kMaxTotalBytes - total) {
      return absl::InvalidArgumentError(absl::StrCat("the server lists ", file.name(), " with ",
                                                     file.size_bytes(), " bytes; a checkpoint has ",
                                                     "at most ", kMaxTotalBytes, " in all"));
    }
    if (!IsSha256(file.sha256())) {
      return absl::InvalidArgumentError(
          absl::StrCat("the server lists ", file.name(), " without a sha256 in hex"));
    }
    total += file.size_bytes();
  }
  return total;
}

// The length of a file, 0 if there is none.
absl::StatusOr<int64_t> FileSize(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const bool exists, fs.Exists(path));
  if (!exists) return 0;
  LORSA_ASSIGN_OR_RETURN(const auto file, fs.OpenForRead(path));
  return static_cast<int64_t>(file->size());
}

// The rest of one file: from its size on disk to the end (step 4).
class FileTransfer {
 public:
  FileTransfer(Client& client, const v1::Checkpoint& checkpoint, const v1::CheckpointFile& file,
               std::string path, std::function<void(int64_t bytes)> on_bytes)
      : client_(client),
        fs_(client.file_system()),
        checkpoint_(checkpoint),
        file_(file),
        path_(std::move(path)),
        on_bytes_(std::move(on_bytes)) {}

  // True if the file's sha256 is the listed one, and the file durable.
  absl::StatusOr<bool> Run(const OutageFunction& on_outage) {
    LORSA_ASSIGN_OR_RETURN(writer_, fs_.OpenForAppend(path_));
    LORSA_ASSIGN_OR_RETURN(offset_, HashFile(fs_, path_, digest_));
    if (offset_ < file_.size_bytes()) {
      LORSA_RETURN_IF_ERROR(
          client_.KeepConnected([this](bool& received) { return Connect(received); }, on_outage));
    }
    LORSA_RETURN_IF_ERROR(writer_->Sync());
    LORSA_RETURN_IF_ERROR(writer_->Close());
    return digest_.HexDigest() == file_.sha256();
  }

 private:
  absl::Status Connect(bool& received) {
    v1::ReadFileRequest request;
    request.set_name(checkpoint_.name());
    request.set_file(file_.name());
    request.set_offset(offset_);
    request.set_expected_sha256(file_.sha256());
    const int64_t start = offset_;
    const absl::Status status =
        client_.Stream(&v1::CheckpointService::Stub::ReadFile, request,
                       [this](const v1::FileChunk& chunk) { return Handle(chunk); });
    received = offset_ > start;
    if (!status.ok()) return status;
    if (offset_ == file_.size_bytes()) return absl::OkStatus();
    return ConnectionError(absl::StrCat("the server closed ", file_.name(), " at byte ", offset_));
  }

  absl::Status Handle(const v1::FileChunk& chunk) {
    if (chunk.file_size() != file_.size_bytes() || chunk.file_sha256() != file_.sha256()) {
      return absl::AbortedError(absl::StrCat(file_.name(), " of ", checkpoint_.name(),
                                             " has changed on the server: download it again"));
    }
    const auto size = static_cast<int64_t>(chunk.data().size());
    if (chunk.offset() != offset_ || size == 0 || size > file_.size_bytes() - offset_ ||
        Crc32c(chunk.data()) != chunk.crc32c()) {
      return Damaged();
    }
    LORSA_RETURN_IF_ERROR(writer_->Append(chunk.data()));
    digest_.Update(chunk.data());
    offset_ += size;
    damaged_ = 0;
    on_bytes_(size);
    return absl::OkStatus();
  }

  // A chunk damaged on its way is asked for again, a few times.
  absl::Status Damaged() {
    const std::string what =
        absl::StrCat("the bytes of ", file_.name(), " from byte ", offset_, " on arrived damaged");
    if (++damaged_ < kMaxDamagedChunks) return ConnectionError(what);
    return absl::DataLossError(
        absl::StrCat(what, " ", damaged_, " times in a row: check the network, then the server"));
  }

  Client& client_;
  FileSystem& fs_;
  const v1::Checkpoint& checkpoint_;
  const v1::CheckpointFile& file_;
  const std::string path_;
  const std::function<void(int64_t)> on_bytes_;
  Sha256 digest_;  // of the first offset_ bytes
  int64_t offset_ = 0;
  int damaged_ = 0;
  std::unique_ptr<WritableFile> writer_;
};

class Download {
 public:
  Download(Client& client, std::string folder, const DownloadCallbacks& callbacks)
      : client_(client),
        fs_(client.file_system()),
        folder_(std::move(folder)),
        partial_(folder_ + ".partial"),
        callbacks_(callbacks) {}

  absl::StatusOr<v1::Checkpoint> Run(const std::string& name) {
    v1::GetCheckpointRequest request;
    request.set_name(name);
    LORSA_ASSIGN_OR_RETURN(checkpoint_,
                           client_.Call(&v1::CheckpointService::Stub::GetCheckpoint, request));
    LORSA_ASSIGN_OR_RETURN(bytes_total_, CheckFiles(checkpoint_));  // 1
    LORSA_ASSIGN_OR_RETURN(const bool complete, FolderIsComplete());
    if (complete) return checkpoint_;         // 2
    LORSA_RETURN_IF_ERROR(PreparePartial());  // 3
    for (const v1::CheckpointFile& file : checkpoint_.files()) {
      LORSA_RETURN_IF_ERROR(Fetch(file));  // 4
    }
    LORSA_RETURN_IF_ERROR(fs_.SyncDirectory(partial_));  // 5
    LORSA_RETURN_IF_ERROR(fs_.Rename(partial_, folder_));
    LORSA_RETURN_IF_ERROR(fs_.SyncDirectory(DirectoryOf(folder_)));
    return checkpoint_;
  }

 private:
  // False if the folder does not exist or is empty.
  absl::StatusOr<bool> FolderIsComplete() {
    LORSA_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(folder_));
    if (!exists) return false;
    LORSA_ASSIGN_OR_RETURN(const auto names, fs_.List(folder_));
    if (names.empty()) return false;
    for (const v1::CheckpointFile& file : checkpoint_.files()) {
      const auto sha256 = Sha256OfFile(fs_, JoinPath(folder_, file.name()));
      if (!sha256.ok() || *sha256 != file.sha256()) {
        return absl::AlreadyExistsError(
            absl::StrCat(folder_, " exists and is not ", checkpoint_.name(), " (", file.name(),
                         " is missing or differs): choose another folder, or remove it"));
      }
    }
    return true;
  }

  absl::Status PreparePartial() {
    LORSA_RETURN_IF_ERROR(fs_.CreateDirectories(partial_));
    LORSA_ASSIGN_OR_RETURN(const auto names, fs_.List(partial_));
    for (const std::string& name : names) LORSA_RETURN_IF_ERROR(CheckLeftOver(name));
    LORSA_ASSIGN_OR_RETURN(const uint64_t free, fs_.FreeBytes(partial_));
    const int64_t needed = bytes_total_ - bytes_done_;
    if (free < static_cast<uint64_t>(needed)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(checkpoint_.name(), " needs ", needed, " more bytes, but the disk of ",
                       folder_, " has only ", free, " free: make room, or choose another folder"));
    }
    return absl::OkStatus();
  }

  // What an earlier try left is kept if it may be the beginning of a file of this checkpoint.
  absl::Status CheckLeftOver(const std::string& name) {
    for (const v1::CheckpointFile& file : checkpoint_.files()) {
      if (file.name() != name) continue;
      const std::string path = JoinPath(partial_, name);
      LORSA_ASSIGN_OR_RETURN(const int64_t size, FileSize(fs_, path));
      if (size > file.size_bytes()) return fs_.Remove(path);
      bytes_done_ += size;
      return absl::OkStatus();
    }
    return absl::AlreadyExistsError(absl::StrCat(partial_, " holds ", name, ", which is not of ",
                                                 checkpoint_.name(),
                                                 ": remove that folder, or choose another one"));
  }

  absl::Status Fetch(const v1::CheckpointFile& file) {
    const std::string path = JoinPath(partial_, file.name());
    LORSA_ASSIGN_OR_RETURN(const int64_t resumed, FileSize(fs_, path));
    LORSA_ASSIGN_OR_RETURN(bool right, Transfer(file, path));
    if (!right && resumed > 0) {
      LORSA_ASSIGN_OR_RETURN(right, Transfer(file, path));
    }
    if (right) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(file.name(), " of ", checkpoint_.name(),
                     " does not have the sha256 that the server lists: ",
                     "it is damaged on the server; download another checkpoint"));
  }

  absl::StatusOr<bool> Transfer(const v1::CheckpointFile& file, const std::string& path) {
    FileTransfer transfer(client_, checkpoint_, file, path,
                          [this](int64_t bytes) { Advance(bytes); });
    LORSA_ASSIGN_OR_RETURN(const bool right, transfer.Run(callbacks_.on_outage));
    if (right) return true;
    LORSA_RETURN_IF_ERROR(fs_.Remove(path));
    Advance(-file.size_bytes());
    return false;
  }

  void Advance(int64_t bytes) {
    bytes_done_ += bytes;
    if (callbacks_.on_progress) callbacks_.on_progress(bytes_done_, bytes_total_);
  }

  Client& client_;
  FileSystem& fs_;
  const std::string folder_;
  const std::string partial_;
  const DownloadCallbacks& callbacks_;
  v1::Checkpoint checkpoint_;
  int64_t bytes_total_ = 0;
  int64_t bytes_done_ = 0;
};

// `folder` without slashes at its end; INVALID_ARGUMENT for one that has no name of its own.
absl::StatusOr<std::string> Normalized(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  const std::string name = folder.substr(folder.rfind('/') + 1);
  if (name.empty() || name == "." || name == "..") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", folder, "' cannot be made anew: name a folder that does not exist yet"));
  }
  return folder;
}

}  // namespace

absl::StatusOr<v1::Checkpoint> DownloadCheckpoint(Client& client, const std::string& name,
                                                  const std::string& folder,
                                                  const DownloadCallbacks& callbacks) {
  LORSA_ASSIGN_OR_RETURN(const std::string target, Normalized(folder));
  return Download(client, target, callbacks).Run(name);
}

}  // namespace lorsa::client

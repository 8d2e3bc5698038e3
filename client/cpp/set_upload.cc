#include "lorsa/client/set_upload.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/crc32c.h"
#include "base/file_system.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace lorsa::client {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;

struct LocalFile {
  std::string name;
  std::string path;
  int64_t size = 0;
};

bool IsShard(const std::string& name) {
  return absl::StartsWith(name, "shard-") && absl::EndsWith(name, ".h5");
}

// Shards first, the manifest last: it vouches for the others.
absl::StatusOr<std::vector<LocalFile>> FilesOf(FileSystem& fs, const std::string& folder) {
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> entries, fs.List(folder));
  std::vector<std::string> names;
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(names), IsShard);
  if (names.empty()) {
    return absl::NotFoundError(absl::StrCat(folder, " holds no shard (shard-00000.h5)"));
  }
  for (const char* name : {"attention.safetensors", "checksums.h5", "manifest.json"}) {
    if (std::find(entries.begin(), entries.end(), name) != entries.end()) names.push_back(name);
  }
  std::vector<LocalFile> files;
  for (const std::string& name : names) {
    LocalFile file{.name = name, .path = JoinPath(folder, name)};
    LORSA_ASSIGN_OR_RETURN(const auto opened, fs.OpenForRead(file.path));
    file.size = static_cast<int64_t>(opened->size());
    files.push_back(std::move(file));
  }
  return files;
}

// One file on its way; a connection at a time.
class FileUpload {
 public:
  FileUpload(Client& client, const std::string& id, const LocalFile& file,
             std::function<void(int64_t)> on_bytes)
      : client_(client), id_(id), file_(file), on_bytes_(std::move(on_bytes)) {}

  absl::Status Run(const OutageFunction& on_outage) {
    FileSystem& fs = client_.file_system();
    LORSA_ASSIGN_OR_RETURN(sha256_, Sha256OfFile(fs, file_.path));
    LORSA_ASSIGN_OR_RETURN(source_, fs.OpenForRead(file_.path));
    return client_.KeepConnected([this](bool& received) { return Connect(received); }, on_outage);
  }

 private:
  absl::Status Connect(bool& received) {
    LORSA_ASSIGN_OR_RETURN(const v1::UploadedFile there, AskServer());
    if (there.received_bytes() > file_.size) {
      return absl::AlreadyExistsError(absl::StrCat("the server has a longer ", file_.name,
                                                   " under this id: choose another id"));
    }
    received = there.received_bytes() > acknowledged_;
    acknowledged_ = there.received_bytes();
    // Of one that is complete nothing is sent but its name: the server compares its sha256.
    offset_ = there.received_bytes();
    started_ = false;
    Report(offset_);
    const auto sent =
        client_.Send(&v1::ActivationService::Stub::UploadShard,
                     [this](v1::UploadShardRequest& request) { return Next(request); });
    if (ErrorReason(sent.status()) == "OFFSET_MISMATCH") {
      // A call before this one, whose connection broke, had not ended when the server was asked.
      return ConnectionError(sent.status().message());
    }
    if (!sent.ok()) return sent.status();
    if (sent->complete()) return absl::OkStatus();
    return ConnectionError(
        absl::StrCat("the server has only ", sent->received_bytes(), " bytes of ", file_.name));
  }

  // What the server has of this file.
  absl::StatusOr<v1::UploadedFile> AskServer() {
    v1::GetUploadRequest request;
    request.set_activation_set_id(id_);
    LORSA_ASSIGN_OR_RETURN(const v1::Upload upload,
                           client_.Call(&v1::ActivationService::Stub::GetUpload, request));
    for (const v1::UploadedFile& file : upload.files()) {
      if (file.file() == file_.name) return file;
    }
    return v1::UploadedFile();
  }

  absl::StatusOr<bool> Next(v1::UploadShardRequest& request) {
    if (!std::exchange(started_, true)) {
      v1::UploadStart& start = *request.mutable_start();
      start.set_activation_set_id(id_);
      start.set_file(file_.name);
      start.set_size_bytes(file_.size);
      start.set_sha256(sha256_);
      start.set_offset(offset_);
      return true;
    }
    if (offset_ == file_.size) return false;
    std::string& data = *request.mutable_data()->mutable_data();
    data.resize(static_cast<size_t>(std::min(kPieceBytes, file_.size - offset_)));
    const absl::Status read = source_->ReadAt(static_cast<uint64_t>(offset_), absl::MakeSpan(data));
    if (absl::IsOutOfRange(read)) {
      return absl::FailedPreconditionError(
          absl::StrCat(file_.path, " became shorter: upload the set once it is finished"));
    }
    LORSA_RETURN_IF_ERROR(read);
    request.mutable_data()->set_crc32c(Crc32c(data));
    offset_ += static_cast<int64_t>(data.size());
    Report(offset_);
    return true;
  }

  void Report(int64_t bytes) {
    on_bytes_(bytes - reported_);
    reported_ = bytes;
  }

  Client& client_;
  const std::string& id_;
  const LocalFile& file_;
  const std::function<void(int64_t)> on_bytes_;
  std::string sha256_;
  std::unique_ptr<ReadableFile> source_;
  int64_t acknowledged_ = 0;  // bytes that the server had when it was last asked
  int64_t offset_ = 0;        // of the next piece
  int64_t reported_ = 0;      // bytes
  bool started_ = false;
};

}  // namespace

absl::Status UploadSet(Client& client, const std::string& id, const std::string& folder,
                       const UploadCallbacks& callbacks) {
  LORSA_ASSIGN_OR_RETURN(const std::vector<LocalFile> files, FilesOf(client.file_system(), folder));
  int64_t total = 0, done = 0;
  for (const LocalFile& file : files) total += file.size;
  for (const LocalFile& file : files) {
    FileUpload upload(client, id, file, [&](int64_t bytes) {
      done += bytes;
      if (callbacks.on_progress) callbacks.on_progress(done, total);
    });
    LORSA_RETURN_IF_ERROR(upload.Run(callbacks.on_outage));
  }
  return absl::OkStatus();
}

}  // namespace lorsa::client

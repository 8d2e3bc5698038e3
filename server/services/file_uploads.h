// Files that arrive piece by piece from elsewhere.
//
//   FOLDER/NAME          complete: its sha256 was compared, and it is on the disk
//   FOLDER/upload-NAME   what has come of a file so far
//
// Protocol of a file:
//   1. The client says what it is going to send, and from which byte on: that many are there. What
//      is there of a longer file is of another, and dropped.
//   2. Each piece is compared with its checksum and appended.
//   3. When all bytes are there the file is fsynced and read back: its sha256 is compared with the
//      one that the client named. If it differs, the file is removed and sent anew.
//   4. It is renamed to its own name, and the folder is fsynced. The client is told.
// A crash before 4 leaves a file to go on with; what of it did not reach the disk, 3 finds.
#ifndef LORSA_SERVER_SERVICES_FILE_UPLOADS_H_
#define LORSA_SERVER_SERVICES_FILE_UPLOADS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/field_violation.h"
#include "base/file_system.h"
#include "lorsa/v1/activation_service.pb.h"
#include "server/rpc/client_stream.h"

namespace lorsa::server {

// What a client announces.
struct IncomingFile {
  std::string folder;  // made if absent; its parent is there
  std::string name;
  int64_t size_bytes = 0;
  std::string sha256;  // hex
  int64_t offset = 0;  // of the first byte sent
  // Held until the file has come, or its call has ended.
  std::shared_ptr<void> claim;
  // A complete file of that name with another sha256 is removed rather than ALREADY_EXISTS.
  bool replaces = false;
};

// What is wrong with size, sha256 and offset, by field.
std::vector<FieldViolation> CheckIncomingFile(const IncomingFile& file, int64_t max_bytes);

// One file on its way in. One thread at a time.
class FileReceiver {
 public:
  virtual ~FileReceiver() = default;
  // 2. DATA_LOSS if the piece does not match its checksum, INVALID_ARGUMENT if it is too long or
  // more than was announced.
  virtual absl::Status Append(const v1::UploadData& piece) = 0;
  // 3 and 4, if all bytes have come. DATA_LOSS if the file is another than was announced.
  virtual absl::StatusOr<v1::UploadedFile> Finish() = 0;
};

// Thread-safe; blocks on the disk.
class FileUploads {
 public:
  // `fs` outlives this, and this the receivers. What is received leaves `disk_reserve_bytes` free.
  FileUploads(FileSystem& fs, int64_t disk_reserve_bytes)
      : fs_(fs), disk_reserve_bytes_(disk_reserve_bytes) {}

  // 1. `file`, already checked, is received. ABORTED (OFFSET_MISMATCH) if the server has another
  // number of bytes, ALREADY_EXISTS if it has another file of that name, UNAVAILABLE
  // (UPLOAD_IN_PROGRESS) while another call sends it, RESOURCE_EXHAUSTED (DISK_RESERVE) if it does
  // not fit on the disk.
  absl::StatusOr<std::unique_ptr<FileReceiver>> Receive(const IncomingFile& file);

  // The files of `folder` whose names `belongs`, in order of name; empty if nothing is there.
  absl::StatusOr<v1::Upload> Describe(const std::string& folder,
                                      const std::function<bool(const std::string&)>& belongs) const;

 private:
  // Of the files that some call is sending: none is sent by two.
  class Claim;
  absl::StatusOr<std::unique_ptr<Claim>> Take(const std::string& path);
  // Whether this very file is complete.
  absl::StatusOr<bool> IsComplete(const IncomingFile& file) const;
  absl::Status CheckOffset(const IncomingFile& file, const std::string& partial_path) const;
  absl::Status CheckRoom(const std::string& folder, int64_t bytes) const;

  FileSystem& fs_;
  const int64_t disk_reserve_bytes_;
  absl::Mutex mu_;
  std::set<std::string> claimed_ ABSL_GUARDED_BY(mu_);
};

// The sink of a call whose first message names a file (`start`) and whose others carry its bytes
// (`data`). `open` makes the receiver of the file that the first message names.
template <typename Request>
class UploadSink final : public StreamSink<Request, v1::UploadedFile> {
 public:
  using Open = std::function<absl::StatusOr<std::unique_ptr<FileReceiver>>(const Request& first)>;
  explicit UploadSink(Open open) : open_(std::move(open)) {}

  absl::Status OnMessage(const Request& message) override {
    if (receiver_ == nullptr) return Begin(message);
    if (message.has_data()) return receiver_->Append(message.data());
    return absl::InvalidArgumentError("only the first message may name a file");
  }
  absl::StatusOr<v1::UploadedFile> Finish() override {
    return receiver_ == nullptr ? NoStart() : receiver_->Finish();
  }

 private:
  static absl::Status NoStart() {
    return absl::InvalidArgumentError("the first message must name the file that is sent");
  }
  absl::Status Begin(const Request& first) {
    if (!first.has_start()) return NoStart();
    absl::StatusOr<std::unique_ptr<FileReceiver>> receiver = open_(first);
    if (receiver.ok()) receiver_ = *std::move(receiver);
    return receiver.status();
  }

  const Open open_;
  std::unique_ptr<FileReceiver> receiver_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_FILE_UPLOADS_H_

// Sets that arrive file by file from elsewhere.
//
//   sets/ID/shard-00000.h5           complete: its sha256 was compared, and it is on the disk
//   sets/ID/upload-shard-00001.h5    what has come of a file so far
//
// Protocol of a file:
//   1. The client says what it is going to send, and from which byte on: that many are there.
//   2. Each piece is compared with its checksum and appended.
//   3. When all bytes are there the file is fsynced and read back: its sha256 is compared with the
//      one that the client named. If it differs, the file is removed and sent anew.
//   4. It is renamed to its own name, and the folder is fsynced. The client is told.
// A crash before 4 leaves a file to go on with; what of it did not reach the disk, 3 finds.
// Registration (SealSet) then checks the shards together and writes the manifest.
#ifndef LORSA_SERVER_SERVICES_SET_UPLOADS_H_
#define LORSA_SERVER_SERVICES_SET_UPLOADS_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/file_system.h"
#include "lorsa/v1/activation_service.pb.h"
#include "server/rpc/client_stream.h"

namespace lorsa::server {

// Thread-safe; blocks on the disk. `id` everywhere is a valid id (base/identifiers.h).
class SetUploads {
 public:
  // `sets_folder` is there; sets arrive in folders of it. `fs` outlives this.
  SetUploads(FileSystem& fs, std::string sets_folder, int64_t disk_reserve_bytes)
      : fs_(fs), sets_folder_(std::move(sets_folder)), disk_reserve_bytes_(disk_reserve_bytes) {}

  std::string Folder(const std::string& id) const;

  // Takes the file that `start`, already checked by CheckUploadStart, announces. ABORTED
  // (OFFSET_MISMATCH) if the server has another number of bytes, ALREADY_EXISTS if it has another
  // file of that name, UNAVAILABLE (UPLOAD_IN_PROGRESS) while another call sends it,
  // RESOURCE_EXHAUSTED (DISK_RESERVE) if it does not fit on the disk.
  using Sink = StreamSink<v1::UploadShardRequest, v1::UploadedFile>;
  absl::StatusOr<std::unique_ptr<Sink>> Receive(const v1::UploadStart& start);

  // What is there; empty if nothing is.
  absl::StatusOr<v1::Upload> Describe(const std::string& id) const;

  // FAILED_PRECONDITION naming a file of which a part is missing yet; NOT_FOUND if nothing was
  // sent.
  absl::Status CheckComplete(const std::string& id) const;

  // Removes the files of a set. OK if there are none.
  absl::Status Remove(const std::string& id);

 private:
  // Of the files that some call is sending: none is sent by two.
  class Claim;
  absl::StatusOr<std::unique_ptr<Claim>> Take(const std::string& path);
  absl::Status CheckRoom(int64_t bytes) const;

  FileSystem& fs_;
  const std::string sets_folder_;
  const int64_t disk_reserve_bytes_;
  absl::Mutex mu_;
  std::set<std::string> claimed_ ABSL_GUARDED_BY(mu_);
};

// INVALID_ARGUMENT naming every field that is wrong.
absl::Status CheckUploadStart(const v1::UploadStart& start);

// The sink of one UploadShard call: waits for the first message, which says what comes.
std::unique_ptr<SetUploads::Sink> MakeUploadSink(
    std::function<absl::StatusOr<std::unique_ptr<SetUploads::Sink>>(const v1::UploadStart&)> open);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SET_UPLOADS_H_

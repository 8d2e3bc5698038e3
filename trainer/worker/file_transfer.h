// Files between the server and a worker that does not share its disk. Each survives a broken
// connection and a restart of the server: what has arrived is not sent again.
//
// A checkpoint that goes to the server:
//   1. The server says what it has of the staged folder (GetStagedUpload).
//   2. Each file is sent from there on (UploadStagedFile); the server compares its sha256, fsyncs
//      it and answers. A file whose call broke begins again with 1.
//   3. The session then asks for publication, as for a checkpoint on a shared disk.
#ifndef LORSA_TRAINER_WORKER_FILE_TRANSFER_H_
#define LORSA_TRAINER_WORKER_FILE_TRANSFER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "base/sha256.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "lorsa/v1/worker_service.grpc.pb.h"
#include "trainer/worker/server_channel.h"

namespace lorsa::worker {

// One file on its way from the server, through as many calls as it takes. One thread.
class Download {
 public:
  // Makes the file anew. `on_bytes` is told the length of each chunk.
  static absl::StatusOr<std::unique_ptr<Download>> Create(
      FileSystem& fs, const std::string& path, std::function<void(int64_t)> on_bytes = nullptr);

  // What the next call must begin with.
  int64_t offset() const { return received_; }

  // Appends the chunks of one call, each compared with its checksum, to the last. DATA_LOSS if a
  // chunk is damaged, if the whole has not the size and sha256 that were announced, or if the
  // server's file is gone or another by now. On an error the call is cancelled; after a transient
  // one (IsTransient) another may go on.
  absl::Status Receive(grpc::ClientContext& context, grpc::ClientReader<v1::FileChunk>& reader);

 private:
  Download(std::unique_ptr<WritableFile> file, std::function<void(int64_t)> on_bytes)
      : file_(std::move(file)), on_bytes_(std::move(on_bytes)) {}
  absl::Status ReceiveAll(grpc::ClientReader<v1::FileChunk>& reader);
  absl::Status Append(const v1::FileChunk& chunk);

  std::unique_ptr<WritableFile> file_;
  const std::function<void(int64_t)> on_bytes_;
  Sha256 hash_;
  int64_t received_ = 0;
};

// Any thread, one call at a time. A call that meets a server that is away, or a connection that
// breaks, goes on until `give_up` says otherwise: then CANCELLED. RESOURCE_EXHAUSTED if there is no
// room, here or there; any other error is final.
class FileTransfer {
 public:
  // `fs` and `channel` outlive this. `on_percent` is told how far a fetch has come.
  FileTransfer(FileSystem& fs, ServerChannel& channel, std::function<bool()> give_up,
               std::function<void(int64_t)> on_percent)
      : fs_(fs),
        channel_(channel),
        give_up_(std::move(give_up)),
        on_percent_(std::move(on_percent)) {}

  // Sends all files of the folder `path`, whose last part is the name of a checkpoint's folder.
  absl::Status SendCheckpoint(const std::string& path);

  // Makes the folder `path` of the published checkpoint `name` (jobs/JOB/checkpoints/ID), replacing
  // what is there. DATA_LOSS if the server finds it damaged, NOT_FOUND if it was deleted.
  absl::Status FetchCheckpoint(const std::string& name, const std::string& path);

  // The same for the checkpoint that the job starts from, of these files. DATA_LOSS if there are
  // none: the server cannot read it.
  absl::Status FetchInitialCheckpoint(
      const google::protobuf::RepeatedPtrField<v1::CheckpointFile>& files, const std::string& path);

  // Makes `contents` the job's list of rollbacks.
  absl::Status SendRollbacks(const std::string& contents);

 private:
  // Makes `call` on the channel again and again, as long as its error may pass.
  absl::Status Repeat(absl::FunctionRef<absl::Status(const std::shared_ptr<grpc::Channel>&)> call);
  absl::Status SendFile(const std::string& path, const std::string& folder,
                        const std::string& file);
  // 1. Of one file.
  absl::StatusOr<int64_t> ReceivedBytes(v1::WorkerService::Stub& stub,
                                        const v1::StagedFileStart& start);
  // 2. One call.
  absl::Status Upload(v1::WorkerService::Stub& stub, const v1::StagedFileStart& start,
                      const ReadableFile& contents);
  absl::Status WritePieces(grpc::ClientWriter<v1::UploadStagedFileRequest>& writer,
                           const ReadableFile& contents, uint64_t offset);
  absl::StatusOr<v1::Checkpoint> Describe(const std::string& name);
  // Begins a call that reads a file from `offset` on.
  using OpenFile = absl::FunctionRef<std::unique_ptr<grpc::ClientReader<v1::FileChunk>>(
      const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
      const v1::CheckpointFile& file, int64_t offset)>;
  absl::Status FetchFiles(const google::protobuf::RepeatedPtrField<v1::CheckpointFile>& files,
                          const std::string& path, OpenFile open);

  FileSystem& fs_;
  ServerChannel& channel_;
  const std::function<bool()> give_up_;
  const std::function<void(int64_t)> on_percent_;
};

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_FILE_TRANSFER_H_

// The numbers are those in file_transfer.h.
#include "trainer/worker/file_transfer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "base/crc32c.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "lorsa/v1/checkpoint_service.grpc.pb.h"
#include "spdlog/spdlog.h"

namespace lorsa::worker {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;
constexpr absl::Duration kMaxRetryDelay = absl::Seconds(5);
// A file that arrives damaged so often is no accident of the network.
constexpr int kMaxDamagedUploads = 5;

// An error of this machine's disk, which no further call cures.
absl::Status Local(const absl::Status& status) {
  if (status.ok() || absl::IsResourceExhausted(status)) return status;
  return absl::FailedPreconditionError(status.message());
}

// Also of a call whose offset was not what the server has.
bool MayPass(const absl::Status& status) {
  return absl::IsAborted(status) || (IsTransient(status) && !absl::IsResourceExhausted(status));
}

std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

// --- Download ---

absl::StatusOr<std::unique_ptr<Download>> Download::Create(FileSystem& fs, const std::string& path,
                                                           std::function<void(int64_t)> on_bytes) {
  absl::StatusOr<std::unique_ptr<WritableFile>> file = fs.Create(path);
  if (!file.ok()) return Local(file.status());
  return std::unique_ptr<Download>(new Download(*std::move(file), std::move(on_bytes)));
}

absl::Status Download::Receive(grpc::ClientContext& context,
                               grpc::ClientReader<v1::FileChunk>& reader) {
  const absl::Status status = ReceiveAll(reader);
  if (!status.ok()) context.TryCancel();
  // The server's word for a file that is gone or no longer the one that was published.
  return absl::IsAborted(status) ? absl::DataLossError(status.message()) : status;
}

absl::Status Download::ReceiveAll(grpc::ClientReader<v1::FileChunk>& reader) {
  v1::FileChunk chunk;
  while (reader.Read(&chunk)) LORSA_RETURN_IF_ERROR(Append(chunk));
  LORSA_RETURN_IF_ERROR(FromGrpc(reader.Finish()));
  if (received_ != chunk.file_size() || hash_.HexDigest() != chunk.file_sha256()) {
    return absl::DataLossError("the file arrived with another size or sha256 than was announced");
  }
  return Local(file_->Close());
}

absl::Status Download::Append(const v1::FileChunk& chunk) {
  if (chunk.offset() != received_ || Crc32c(chunk.data()) != chunk.crc32c()) {
    return absl::DataLossError(absl::StrCat("a chunk at byte ", received_, " arrived damaged"));
  }
  LORSA_RETURN_IF_ERROR(Local(file_->Append(chunk.data())));
  hash_.Update(chunk.data());
  received_ += static_cast<int64_t>(chunk.data().size());
  if (on_bytes_) on_bytes_(static_cast<int64_t>(chunk.data().size()));
  return absl::OkStatus();
}

// --- FileTransfer ---

absl::Status FileTransfer::Repeat(
    absl::FunctionRef<absl::Status(const std::shared_ptr<grpc::Channel>&)> call) {
  absl::Duration delay = kRetryDelay;
  while (true) {
    const auto channel = channel_.Get();
    const absl::Status status = channel.ok() ? call(*channel) : channel.status();
    if (!MayPass(status)) return status;
    if (give_up_()) return absl::CancelledError(status.message());
    spdlog::info("event=transfer_interrupted error=\"{}\"", status.ToString());
    absl::SleepFor(delay);
    delay = std::min(2 * delay, kMaxRetryDelay);
  }
}

absl::Status FileTransfer::SendCheckpoint(const std::string& path) {
  const absl::StatusOr<std::vector<std::string>> files = fs_.List(path);
  LORSA_RETURN_IF_ERROR(Local(files.status()));
  for (const std::string& file : *files) {
    LORSA_RETURN_IF_ERROR(SendFile(JoinPath(path, file), LastPart(path), file));
  }
  return absl::OkStatus();
}

absl::Status FileTransfer::SendFile(const std::string& path, const std::string& folder,
                                    const std::string& file) {
  const absl::StatusOr<std::unique_ptr<ReadableFile>> contents = fs_.OpenForRead(path);
  LORSA_RETURN_IF_ERROR(Local(contents.status()));
  const absl::StatusOr<std::string> sha256 = Sha256OfFile(fs_, path);
  LORSA_RETURN_IF_ERROR(Local(sha256.status()));
  v1::StagedFileStart start;
  start.set_folder(folder);
  start.set_file(file);
  start.set_size_bytes(static_cast<int64_t>((*contents)->size()));
  start.set_sha256(*sha256);
  int damaged = 0;
  return Repeat([&](const std::shared_ptr<grpc::Channel>& channel) -> absl::Status {
    const auto stub = v1::WorkerService::NewStub(channel);
    LORSA_ASSIGN_OR_RETURN(const int64_t received, ReceivedBytes(*stub, start));  // 1
    // Of a longer file, which the server drops.
    start.set_offset(received <= start.size_bytes() ? received : 0);
    const absl::Status status = Upload(*stub, start, **contents);  // 2
    const bool again = absl::IsDataLoss(status) && ++damaged < kMaxDamagedUploads;
    return again ? absl::AbortedError(status.message()) : status;
  });
}

absl::StatusOr<int64_t> FileTransfer::ReceivedBytes(v1::WorkerService::Stub& stub,
                                                    const v1::StagedFileStart& start) {
  grpc::ClientContext context;
  channel_.Authorize(context);
  v1::GetStagedUploadRequest request;
  request.set_folder(start.folder());
  v1::Upload upload;
  LORSA_RETURN_IF_ERROR(FromGrpc(stub.GetStagedUpload(&context, request, &upload)));
  for (const v1::UploadedFile& file : upload.files()) {
    if (file.file() == start.file()) return file.received_bytes();
  }
  return 0;
}

absl::Status FileTransfer::Upload(v1::WorkerService::Stub& stub, const v1::StagedFileStart& start,
                                  const ReadableFile& contents) {
  grpc::ClientContext context;
  channel_.Authorize(context);
  v1::UploadedFile answer;
  const auto writer = stub.UploadStagedFile(&context, &answer);
  v1::UploadStagedFileRequest first;
  *first.mutable_start() = start;
  absl::Status written;
  if (writer->Write(first)) {
    written = WritePieces(*writer, contents, static_cast<uint64_t>(start.offset()));
  }
  if (written.ok()) {
    writer->WritesDone();
  } else {
    context.TryCancel();
  }
  const absl::Status finished = FromGrpc(writer->Finish());
  LORSA_RETURN_IF_ERROR(written);
  LORSA_RETURN_IF_ERROR(finished);
  if (answer.complete()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the server has ", answer.received_bytes(),
                                             " bytes of ", start.file(), ", not all"));
}

// Until all are written, or the server does not take more, whose reason its status tells.
absl::Status FileTransfer::WritePieces(grpc::ClientWriter<v1::UploadStagedFileRequest>& writer,
                                       const ReadableFile& contents, uint64_t offset) {
  v1::UploadStagedFileRequest message;
  while (offset < contents.size()) {
    if (give_up_()) return absl::CancelledError("asked to stop");
    std::string& data = *message.mutable_data()->mutable_data();
    data.resize(std::min(kPieceBytes, contents.size() - offset));
    LORSA_RETURN_IF_ERROR(Local(contents.ReadAt(offset, absl::MakeSpan(data))));
    message.mutable_data()->set_crc32c(Crc32c(data));
    if (!writer.Write(message)) return absl::OkStatus();
    offset += data.size();
  }
  return absl::OkStatus();
}

absl::Status FileTransfer::FetchCheckpoint(const std::string& name, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint, Describe(name));
  return FetchFiles(checkpoint.files(), path,
                    [&](const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
                        const v1::CheckpointFile& file, int64_t offset) {
                      v1::ReadFileRequest request;
                      request.set_name(name);
                      request.set_file(file.name());
                      request.set_offset(offset);
                      request.set_expected_sha256(file.sha256());
                      return v1::CheckpointService::NewStub(channel)->ReadFile(&context, request);
                    });
}

absl::Status FileTransfer::FetchInitialCheckpoint(
    const google::protobuf::RepeatedPtrField<v1::CheckpointFile>& files, const std::string& path) {
  if (files.empty()) {
    return absl::DataLossError("the server cannot read the checkpoint that the job starts from");
  }
  return FetchFiles(files, path,
                    [](const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context,
                       const v1::CheckpointFile& file, int64_t offset) {
                      v1::ReadInitialCheckpointRequest request;
                      request.set_file(file.name());
                      request.set_offset(offset);
                      return v1::WorkerService::NewStub(channel)->ReadInitialCheckpoint(&context,
                                                                                        request);
                    });
}

absl::StatusOr<v1::Checkpoint> FileTransfer::Describe(const std::string& name) {
  v1::Checkpoint checkpoint;
  LORSA_RETURN_IF_ERROR(Repeat([&](const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    channel_.Authorize(context);
    v1::GetCheckpointRequest request;
    request.set_name(name);
    return FromGrpc(
        v1::CheckpointService::NewStub(channel)->GetCheckpoint(&context, request, &checkpoint));
  }));
  return checkpoint;
}

absl::Status FileTransfer::FetchFiles(
    const google::protobuf::RepeatedPtrField<v1::CheckpointFile>& files, const std::string& path,
    OpenFile open) {
  LORSA_RETURN_IF_ERROR(Local(fs_.RemoveAll(path)));
  LORSA_RETURN_IF_ERROR(Local(fs_.CreateDirectories(path)));
  int64_t total = 0, received = 0;
  for (const v1::CheckpointFile& file : files) total += file.size_bytes();
  const auto on_bytes = [&](int64_t bytes) {
    received += bytes;
    on_percent_(100 * received / std::max<int64_t>(total, 1));
  };
  for (const v1::CheckpointFile& file : files) {
    LORSA_RETURN_IF_ERROR(ValidateId("file name", file.name()));
    LORSA_ASSIGN_OR_RETURN(const auto download,
                           Download::Create(fs_, JoinPath(path, file.name()), on_bytes));
    LORSA_RETURN_IF_ERROR(Repeat([&](const std::shared_ptr<grpc::Channel>& channel) {
      grpc::ClientContext context;
      channel_.Authorize(context);
      return download->Receive(context, *open(channel, context, file, download->offset()));
    }));
  }
  return absl::OkStatus();
}

absl::Status FileTransfer::SendRollbacks(const std::string& contents) {
  return Repeat([&](const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    channel_.Authorize(context);
    v1::StoreRollbacksRequest request;
    request.set_contents(contents);
    google::protobuf::Empty nothing;
    return FromGrpc(
        v1::WorkerService::NewStub(channel)->StoreRollbacks(&context, request, &nothing));
  });
}

}  // namespace lorsa::worker

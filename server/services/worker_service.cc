#include "server/services/worker_service.h"

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_files.h"
#include "server/rpc/bidi_stream.h"
#include "server/rpc/client_stream.h"
#include "server/rpc/unary_call.h"
#include "server/services/file_chunk_source.h"

namespace lorsa::server {
namespace {

class SessionHandler final : public BidiHandler<v1::WorkerMessage> {
 public:
  SessionHandler(WorkerSessions& sessions, const CallLanes& lanes, AttemptKey attempt,
                 std::shared_ptr<WorkerConnection> connection)
      : sessions_(sessions),
        lanes_(lanes),
        attempt_(std::move(attempt)),
        connection_(std::move(connection)) {}

  Executor* OnArrival(const v1::WorkerMessage& message) override {
    if (IsOutOfOrder(message)) return nullptr;
    switch (sessions_.Arrived(attempt_, message)) {
      case HandlingNeeds::kNothing:
        return nullptr;
      case HandlingNeeds::kCatalog:
        return &lanes_.writes.executor;
      case HandlingNeeds::kFiles:
        return &lanes_.files.executor;
    }
    return nullptr;
  }

  absl::Status OnMessage(const v1::WorkerMessage& message) override {
    if (IsOutOfOrder(message)) {
      return absl::InvalidArgumentError("a worker says hello once, first");
    }
    if (greeted_) return sessions_.Handle(attempt_, message, *connection_);
    LORSA_RETURN_IF_ERROR(sessions_.Hello(attempt_, message.hello(), connection_));
    greeted_ = true;
    return absl::OkStatus();
  }

  void OnClose() override { sessions_.Disconnected(attempt_, connection_.get()); }

 private:
  bool IsOutOfOrder(const v1::WorkerMessage& message) const {
    return message.has_hello() == greeted_;
  }

  WorkerSessions& sessions_;
  const CallLanes& lanes_;
  const AttemptKey attempt_;
  const std::shared_ptr<WorkerConnection> connection_;
  bool greeted_ = false;
};

// A file of an attempt, each piece of which is a sign of its life.
class NotedReceiver final : public FileReceiver {
 public:
  NotedReceiver(std::unique_ptr<FileReceiver> receiver, std::function<void()> note)
      : receiver_(std::move(receiver)), note_(std::move(note)) {}

  absl::Status Append(const v1::UploadData& piece) override {
    note_();
    return receiver_->Append(piece);
  }
  absl::StatusOr<v1::UploadedFile> Finish() override { return receiver_->Finish(); }

 private:
  const std::unique_ptr<FileReceiver> receiver_;
  const std::function<void()> note_;
};

}  // namespace

grpc::ServerBidiReactor<v1::WorkerMessage, v1::ServerMessage>* WorkerService::Session(
    grpc::CallbackServerContext* context) {
  return ServeBidi<v1::WorkerMessage, v1::ServerMessage>(
      env_.lanes.workers, "lorsa.v1.WorkerService.Session", context,
      [this](const Caller& caller, std::shared_ptr<WorkerConnection> connection)
          -> absl::StatusOr<std::unique_ptr<BidiHandler<v1::WorkerMessage>>> {
        return std::make_unique<SessionHandler>(env_.sessions, env_.lanes, *caller.worker,
                                                std::move(connection));
      });
}

grpc::ServerReadReactor<v1::UploadStagedFileRequest>* WorkerService::UploadStagedFile(
    grpc::CallbackServerContext* context, v1::UploadedFile* response) {
  return ServeClientStream<v1::UploadStagedFileRequest, v1::UploadedFile>(
      env_.lanes.data, "lorsa.v1.WorkerService.UploadStagedFile", context, response, uploads_,
      [this](const Caller& caller) {
        return std::make_unique<UploadSink<v1::UploadStagedFileRequest>>(
            [this, attempt = *caller.worker](const v1::UploadStagedFileRequest& first)
                -> absl::StatusOr<std::unique_ptr<FileReceiver>> {
              LORSA_ASSIGN_OR_RETURN(auto receiver, env_.uploads.Receive(attempt, first.start()));
              return std::make_unique<NotedReceiver>(
                  std::move(receiver), [this, attempt] { env_.sessions.NoteTransfer(attempt); });
            });
      });
}

grpc::ServerUnaryReactor* WorkerService::GetStagedUpload(grpc::CallbackServerContext* context,
                                                         const v1::GetStagedUploadRequest* request,
                                                         v1::Upload* response) {
  return ServeWorkerUnary(
      env_.lanes.data, "lorsa.v1.WorkerService.GetStagedUpload", context, request, response,
      [this](const AttemptKey& attempt, const auto& request, auto& response) -> absl::Status {
        LORSA_ASSIGN_OR_RETURN(response, env_.uploads.Describe(attempt, request.folder()));
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<v1::FileChunk>* WorkerService::ReadInitialCheckpoint(
    grpc::CallbackServerContext* context, const v1::ReadInitialCheckpointRequest* request) {
  return ServeStream<v1::FileChunk>(env_.lanes.data, "lorsa.v1.WorkerService.ReadInitialCheckpoint",
                                    context, request,
                                    [this, request](const Caller& caller, const Waker&) {
                                      return OpenInitialCheckpoint(caller.worker->job_id, *request);
                                    });
}

OpenedSource<v1::FileChunk> WorkerService::OpenInitialCheckpoint(
    const std::string& job_id, const v1::ReadInitialCheckpointRequest& request) {
  const std::string folder = env_.layout.InitialCheckpointFolder(job_id);
  const auto files = ReadCheckpointManifest(env_.fs, folder);
  if (absl::IsNotFound(files.status())) {
    return absl::NotFoundError("this job starts from no checkpoint");
  }
  LORSA_RETURN_IF_ERROR(files.status());
  // Only a name that the manifest lists is ever part of a path.
  for (const v1::CheckpointFile& file : *files) {
    if (file.name() != request.file()) continue;
    return FileChunkSource::Open(env_.fs, {.path = JoinPath(folder, file.name()),
                                           .size = file.size_bytes(),
                                           .sha256 = file.sha256(),
                                           .offset = request.offset()});
  }
  return absl::NotFoundError("the checkpoint that the job starts from has no file of that name");
}

grpc::ServerUnaryReactor* WorkerService::StoreRollbacks(grpc::CallbackServerContext* context,
                                                        const v1::StoreRollbacksRequest* request,
                                                        google::protobuf::Empty* response) {
  return ServeWorkerUnary(env_.lanes.files, "lorsa.v1.WorkerService.StoreRollbacks", context,
                          request, response,
                          [this](const AttemptKey& attempt, const auto& request, auto&) {
                            return env_.sessions.StoreRollbacks(attempt, request.contents());
                          });
}

}  // namespace lorsa::server

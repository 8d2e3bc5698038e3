#include "server/services/worker_service.h"

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_files.h"
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
        return &lanes_.writes;
      case HandlingNeeds::kFiles:
        return &lanes_.files;
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

WorkerService::WorkerService(const WorkerServiceEnvironment& environment)
    : RpcService("lorsa.v1.WorkerService", environment.calls),
      env_(environment),
      uploads_(kUploadThreads) {
  const CallLanes& lanes = env_.lanes;
  Bidirectional({"Session", Access::kWorker, lanes.workers}, *this, &WorkerService::OpenSession);
  ClientStreaming({"UploadStagedFile", Access::kWorker, lanes.data}, *this, uploads_,
                  &WorkerService::OpenUpload);
  Unary({"GetStagedUpload", Access::kWorker, lanes.data}, *this, &WorkerService::GetUpload);
  ServerStreaming({"ReadInitialCheckpoint", Access::kWorker, lanes.data}, *this,
                  &WorkerService::OpenInitialCheckpoint);
  Unary({"StoreRollbacks", Access::kWorker, lanes.files}, *this, &WorkerService::StoreRollbacks);
}

OpenedHandler<v1::WorkerMessage> WorkerService::OpenSession(
    const Caller& caller, std::shared_ptr<BidiSender<v1::ServerMessage>> connection) {
  return std::make_unique<SessionHandler>(env_.sessions, env_.lanes, *caller.worker,
                                          std::move(connection));
}

OpenedSink<v1::UploadStagedFileRequest, v1::UploadedFile> WorkerService::OpenUpload(
    const Caller& caller) {
  return std::make_unique<UploadSink<v1::UploadStagedFileRequest>>(
      [this, attempt = *caller.worker](const v1::UploadStagedFileRequest& first)
          -> absl::StatusOr<std::unique_ptr<FileReceiver>> {
        LORSA_ASSIGN_OR_RETURN(auto receiver, env_.uploads.Receive(attempt, first.start()));
        return std::make_unique<NotedReceiver>(
            std::move(receiver), [this, attempt] { env_.sessions.NoteTransfer(attempt); });
      });
}

absl::Status WorkerService::GetUpload(const Caller& caller,
                                      const v1::GetStagedUploadRequest& request,
                                      v1::Upload& response) {
  LORSA_ASSIGN_OR_RETURN(response, env_.uploads.Describe(*caller.worker, request.folder()));
  return absl::OkStatus();
}

OpenedSource<v1::FileChunk> WorkerService::OpenInitialCheckpoint(
    const Caller& caller, const v1::ReadInitialCheckpointRequest& request, Waker) {
  const std::string folder = env_.layout.InitialCheckpointFolder(caller.worker->job_id);
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

absl::Status WorkerService::StoreRollbacks(const Caller& caller,
                                           const v1::StoreRollbacksRequest& request,
                                           google::protobuf::Empty&) {
  return env_.sessions.StoreRollbacks(*caller.worker, request.contents());
}

}  // namespace lorsa::server

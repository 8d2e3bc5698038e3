// lorsa.v1.WorkerService. The contract stands in the proto.
#ifndef LORSA_SERVER_SERVICES_WORKER_SERVICE_H_
#define LORSA_SERVER_SERVICES_WORKER_SERVICE_H_

#include <string>

#include "base/file_system.h"
#include "lorsa/v1/worker_service.grpc.pb.h"
#include "server/jobs/data_layout.h"
#include "server/jobs/worker_sessions.h"
#include "server/rpc/call_lanes.h"
#include "server/rpc/server_stream.h"
#include "server/services/staged_uploads.h"

namespace lorsa::server {

struct WorkerServiceEnvironment {
  CallLanes lanes;
  WorkerSessions& sessions;
  StagedUploads& uploads;
  FileSystem& fs;
  DataLayout layout;
};

class WorkerService final : public v1::WorkerService::CallbackService {
 public:
  // All of the environment outlives the service; the service outlives the gRPC server.
  explicit WorkerService(const WorkerServiceEnvironment& environment)
      : env_(environment), uploads_(kUploadThreads) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::ServerMessage>* Session(
      grpc::CallbackServerContext* context) override;
  grpc::ServerReadReactor<v1::UploadStagedFileRequest>* UploadStagedFile(
      grpc::CallbackServerContext* context, v1::UploadedFile* response) override;
  grpc::ServerUnaryReactor* GetStagedUpload(grpc::CallbackServerContext* context,
                                            const v1::GetStagedUploadRequest* request,
                                            v1::Upload* response) override;
  grpc::ServerWriteReactor<v1::FileChunk>* ReadInitialCheckpoint(
      grpc::CallbackServerContext* context,
      const v1::ReadInitialCheckpointRequest* request) override;
  grpc::ServerUnaryReactor* StoreRollbacks(grpc::CallbackServerContext* context,
                                           const v1::StoreRollbacksRequest* request,
                                           google::protobuf::Empty* response) override;

 private:
  OpenedSource<v1::FileChunk> OpenInitialCheckpoint(
      const std::string& job_id, const v1::ReadInitialCheckpointRequest& request);

  static constexpr int kUploadThreads = 2;

  const WorkerServiceEnvironment env_;
  Executor uploads_;  // whole files are compared with their sha256 here
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_WORKER_SERVICE_H_

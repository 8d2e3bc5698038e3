// lorsa.v1.WorkerService. The contract stands in the proto.
#ifndef LORSA_SERVER_SERVICES_WORKER_SERVICE_H_
#define LORSA_SERVER_SERVICES_WORKER_SERVICE_H_

#include <memory>

#include "base/file_system.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/jobs/worker_sessions.h"
#include "server/model/data_layout.h"
#include "server/rpc/call_lanes.h"
#include "server/rpc/rpc_service.h"
#include "server/services/staged_uploads.h"

namespace lorsa::server {

struct WorkerServiceEnvironment {
  CallEnvironment calls;
  CallLanes lanes;
  WorkerSessions& sessions;
  StagedUploads& uploads;
  FileSystem& fs;
  DataLayout layout;
};

class WorkerService final : public RpcService {
 public:
  // All of the environment outlives the service; the service outlives the gRPC server.
  explicit WorkerService(const WorkerServiceEnvironment& environment);

 private:
  OpenedHandler<v1::WorkerMessage> OpenSession(
      const Caller& caller, std::shared_ptr<BidiSender<v1::ServerMessage>> connection);
  OpenedSink<v1::UploadStagedFileRequest, v1::UploadedFile> OpenUpload(const Caller& caller);
  absl::Status GetUpload(const Caller& caller, const v1::GetStagedUploadRequest& request,
                         v1::Upload& response);
  OpenedSource<v1::FileChunk> OpenInitialCheckpoint(const Caller& caller,
                                                    const v1::ReadInitialCheckpointRequest& request,
                                                    Waker);
  absl::Status StoreRollbacks(const Caller& caller, const v1::StoreRollbacksRequest& request,
                              google::protobuf::Empty&);

  static constexpr int kUploadThreads = 2;

  const WorkerServiceEnvironment env_;
  Executor uploads_;  // whole files are compared with their sha256 here
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_WORKER_SERVICE_H_

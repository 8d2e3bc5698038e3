// lorsa.v1.CheckpointService. The contract of each method stands in the proto.
#ifndef LORSA_SERVER_SERVICES_CHECKPOINT_SERVICE_H_
#define LORSA_SERVER_SERVICES_CHECKPOINT_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "lorsa/v1/checkpoint_service.grpc.pb.h"
#include "server/catalog/catalog.h"
#include "server/inspection/inspector.h"
#include "server/jobs/data_layout.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/call_lanes.h"
#include "server/rpc/executor.h"
#include "server/rpc/server_stream.h"
#include "server/services/activation_roots.h"

namespace lorsa::server {

struct CheckpointServiceEnvironment {
  CallLanes lanes;
  Catalog& catalog;
  FileSystem& fs;
  DataLayout layout;
  JobManager& jobs;
  const Inspector& inspector;
  ActivationRoots roots;
  std::function<absl::Time()> now;  // thread-safe
  int64_t disk_reserve_bytes = 0;
};

class CheckpointService final : public v1::CheckpointService::CallbackService {
 public:
  // All of the environment outlives the service; the service outlives the gRPC server.
  explicit CheckpointService(CheckpointServiceEnvironment environment)
      : env_(std::move(environment)), imports_(1) {}

  grpc::ServerUnaryReactor* ListCheckpoints(grpc::CallbackServerContext* context,
                                            const v1::ListCheckpointsRequest* request,
                                            v1::ListCheckpointsResponse* response) override;
  grpc::ServerUnaryReactor* GetCheckpoint(grpc::CallbackServerContext* context,
                                          const v1::GetCheckpointRequest* request,
                                          v1::Checkpoint* response) override;
  grpc::ServerWriteReactor<v1::FileChunk>* ReadFile(grpc::CallbackServerContext* context,
                                                    const v1::ReadFileRequest* request) override;
  grpc::ServerUnaryReactor* PinCheckpoint(grpc::CallbackServerContext* context,
                                          const v1::PinCheckpointRequest* request,
                                          v1::Checkpoint* response) override;
  grpc::ServerUnaryReactor* UnpinCheckpoint(grpc::CallbackServerContext* context,
                                            const v1::UnpinCheckpointRequest* request,
                                            v1::Checkpoint* response) override;
  grpc::ServerUnaryReactor* DeleteCheckpoint(grpc::CallbackServerContext* context,
                                             const v1::DeleteCheckpointRequest* request,
                                             google::protobuf::Empty* response) override;
  grpc::ServerWriteReactor<v1::ImportCheckpointResponse>* ImportCheckpoint(
      grpc::CallbackServerContext* context, const v1::ImportCheckpointRequest* request) override;

 private:
  absl::Status List(const v1::ListCheckpointsRequest& request,
                    v1::ListCheckpointsResponse& response);
  absl::Status Get(const v1::GetCheckpointRequest& request, v1::Checkpoint& response);
  absl::Status Delete(const v1::DeleteCheckpointRequest& request);
  absl::Status SetPinned(const std::string& name, bool pinned, v1::Checkpoint& response);
  // By step, best or latest.
  absl::StatusOr<std::unique_ptr<StreamSource<v1::FileChunk>>> OpenFile(
      const v1::ReadFileRequest& request);

  absl::StatusOr<std::unique_ptr<StreamSource<v1::ImportCheckpointResponse>>> OpenImport(
      const v1::ImportCheckpointRequest& request, Waker waker);

  const CheckpointServiceEnvironment env_;
  // One import at a time. Last, so that it ends before what it uses.
  Executor imports_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_CHECKPOINT_SERVICE_H_

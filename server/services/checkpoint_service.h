// lorsa.v1.CheckpointService. The contract of each method stands in the proto.
#ifndef LORSA_SERVER_SERVICES_CHECKPOINT_SERVICE_H_
#define LORSA_SERVER_SERVICES_CHECKPOINT_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "lorsa/v1/checkpoint_service.grpc.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/data_layout.h"
#include "server/rpc/call_runtime.h"
#include "server/rpc/server_stream.h"

namespace lorsa::server {

struct CheckpointServiceEnvironment {
  CallRuntime runtime;
  Catalog& catalog;
  FileSystem& fs;
  DataLayout layout;
};

class CheckpointService final : public v1::CheckpointService::CallbackService {
 public:
  // All of the environment outlives the service; the service outlives the gRPC server.
  explicit CheckpointService(CheckpointServiceEnvironment environment)
      : env_(std::move(environment)) {}

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

 private:
  absl::Status List(const v1::ListCheckpointsRequest& request,
                    v1::ListCheckpointsResponse& response);
  absl::Status Get(const v1::GetCheckpointRequest& request, v1::Checkpoint& response);
  absl::Status SetPinned(const std::string& name, bool pinned, v1::Checkpoint& response);
  // By step, best or latest.
  absl::StatusOr<std::unique_ptr<StreamSource<v1::FileChunk>>> OpenFile(
      const v1::ReadFileRequest& request);

  const CheckpointServiceEnvironment env_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_CHECKPOINT_SERVICE_H_

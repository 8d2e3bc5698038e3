// lorsa.v1.CheckpointService. The contract of each method stands in the proto.
#ifndef LORSA_SERVER_SERVICES_CHECKPOINT_SERVICE_H_
#define LORSA_SERVER_SERVICES_CHECKPOINT_SERVICE_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/inspection/inspector.h"
#include "server/jobs/job_manager.h"
#include "server/model/data_layout.h"
#include "server/rpc/call_lanes.h"
#include "server/rpc/executor.h"
#include "server/rpc/rpc_service.h"
#include "server/services/activation_roots.h"

namespace lorsa::server {

struct CheckpointServiceEnvironment {
  CallEnvironment calls;
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

class CheckpointService final : public RpcService {
 public:
  // All of the environment outlives the service; the service outlives the gRPC server.
  explicit CheckpointService(CheckpointServiceEnvironment environment);

 private:
  absl::Status List(const Caller&, const v1::ListCheckpointsRequest& request,
                    v1::ListCheckpointsResponse& response);
  // By step, best or latest.
  absl::Status Get(const Caller&, const v1::GetCheckpointRequest& request,
                   v1::Checkpoint& response);
  absl::Status Delete(const Caller&, const v1::DeleteCheckpointRequest& request,
                      google::protobuf::Empty&);
  template <typename Request, bool pinned>
  absl::Status SetPinned(const Caller&, const Request& request, v1::Checkpoint& response);
  OpenedSource<v1::FileChunk> OpenFile(const Caller&, const v1::ReadFileRequest& request, Waker);
  OpenedSource<v1::ImportCheckpointResponse> OpenImport(const Caller&,
                                                        const v1::ImportCheckpointRequest& request,
                                                        Waker waker);

  const CheckpointServiceEnvironment env_;
  // One import at a time. Last, so that it ends before what it uses.
  Executor imports_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_CHECKPOINT_SERVICE_H_

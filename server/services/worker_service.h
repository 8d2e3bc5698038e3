// lorsa.v1.WorkerService. The contract stands in the proto.
#ifndef LORSA_SERVER_SERVICES_WORKER_SERVICE_H_
#define LORSA_SERVER_SERVICES_WORKER_SERVICE_H_

#include "lorsa/v1/worker_service.grpc.pb.h"
#include "server/jobs/worker_sessions.h"
#include "server/rpc/call_runtime.h"

namespace lorsa::server {

class WorkerService final : public v1::WorkerService::CallbackService {
 public:
  // Both outlive the service; the service outlives the gRPC server.
  WorkerService(const CallRuntime& runtime, WorkerSessions& sessions)
      : runtime_(runtime), sessions_(sessions) {}

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::ServerMessage>* Session(
      grpc::CallbackServerContext* context) override;

 private:
  const CallRuntime runtime_;
  WorkerSessions& sessions_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_WORKER_SERVICE_H_

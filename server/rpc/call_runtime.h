// What every handler needs, and the first step that all of them share.
#ifndef LORSA_SERVER_RPC_CALL_RUNTIME_H_
#define LORSA_SERVER_RPC_CALL_RUNTIME_H_

#include <grpcpp/server_context.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/rpc/authorization.h"
#include "server/rpc/executor.h"

namespace lorsa::server {

// Both outlive the gRPC server. Copied freely.
struct CallRuntime {
  Executor& executor;
  const Authorizer& authorizer;
};

// Calls that may wait for a thread; one more is refused at once, so that a flood costs the clients
// that make it a retry and not everybody memory.
inline constexpr size_t kMaxWaitingCalls = 4096;

// Runs on the executor before anything of the request is read: RESOURCE_EXHAUSTED (reason
// SERVER_BUSY) if too many calls wait, else what the authorizer says.
absl::StatusOr<Caller> AdmitCall(const CallRuntime& runtime, absl::string_view method,
                                 const grpc::CallbackServerContext& context);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_CALL_RUNTIME_H_

#include "server/rpc/call_runtime.h"

#include "server/rpc/errors.h"

namespace lorsa::server {

absl::StatusOr<Caller> AdmitCall(const CallRuntime& runtime, absl::string_view method,
                                 const grpc::CallbackServerContext& context) {
  if (runtime.executor.queued() > kMaxWaitingCalls) {
    return WithReason(
        absl::ResourceExhaustedError("the server has too many calls waiting: try again later"),
        "SERVER_BUSY");
  }
  return runtime.authorizer.Authorize(method, context);
}

}  // namespace lorsa::server

// The reactor of unary methods.
#ifndef LORSA_SERVER_RPC_UNARY_CALL_H_
#define LORSA_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/rpc/call_runtime.h"
#include "server/rpc/errors.h"

namespace lorsa::server {

// Runs `handler` on the executor and finishes the call with its status. Owns itself until OnDone,
// which gRPC calls once, after Finish.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  using Handler = std::function<absl::Status(const Caller&)>;

  UnaryCall(const CallRuntime& runtime, absl::string_view method,
            grpc::CallbackServerContext* context, Handler handler) {
    runtime.executor.Schedule(
        [this, runtime, method, context, handler = std::move(handler)]() mutable {
          const absl::StatusOr<Caller> caller = AdmitCall(runtime, method, *context);
          const absl::Status status = caller.ok() ? handler(*caller) : caller.status();
          handler = nullptr;
          Finish(ToGrpcStatus(status));
        });
  }

  void OnDone() override { delete this; }
};

// A unary RPC in one line: `handler(request, response)` is called on the executor once the caller
// is authorised. `method` is a literal: the full name of the method, as in the table of rules.
//
//   grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
//                                    const v1::GetJobRequest* request, v1::Job* job) override {
//     return ServeUnary(runtime_, "lorsa.v1.JobService.GetJob", context, request, job,
//                       [this](const auto& request, auto& job) { return Get(request, job); });
//   }
template <typename Request, typename Response, typename Handler>
grpc::ServerUnaryReactor* ServeUnary(const CallRuntime& runtime, absl::string_view method,
                                     grpc::CallbackServerContext* context, const Request* request,
                                     Response* response, Handler handler) {
  return new UnaryCall(
      runtime, method, context,
      [request, response, handler = std::move(handler)](const Caller&) mutable -> absl::Status {
        return handler(*request, *response);
      });
}

// The same for methods that only workers may call: `handler(attempt, request, response)`.
template <typename Request, typename Response, typename Handler>
grpc::ServerUnaryReactor* ServeWorkerUnary(const CallRuntime& runtime, absl::string_view method,
                                           grpc::CallbackServerContext* context,
                                           const Request* request, Response* response,
                                           Handler handler) {
  return new UnaryCall(runtime, method, context,
                       [request, response, handler = std::move(handler)](
                           const Caller& caller) mutable -> absl::Status {
                         return handler(*caller.worker, *request, *response);
                       });
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_UNARY_CALL_H_

// The reactor of unary methods.
#ifndef LORSA_SERVER_RPC_UNARY_CALL_H_
#define LORSA_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/exception_wall.h"
#include "server/rpc/call_runtime.h"
#include "server/rpc/errors.h"

namespace lorsa::server {

// Runs `handler` on the executor and finishes the call with its status. A call that is cancelled
// while it waits leaves the queue. Owns itself until OnDone, which gRPC calls once, after Finish.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  using Handler = std::function<absl::Status(const Caller&)>;

  UnaryCall(const CallRuntime& runtime, absl::string_view method,
            grpc::CallbackServerContext* context, size_t request_bytes, Handler handler)
      : runtime_(runtime), method_(method), context_(context), handler_(std::move(handler)) {
    absl::StatusOr<Executor::Ticket> ticket =
        AdmitCall(runtime_, *context_, request_bytes, [this] { Run(); });
    if (ticket.ok()) {
      ticket_ = *std::move(ticket);
    } else {
      Finish(ToGrpcStatus(ticket.status()));
    }
  }

  void OnCancel() override {
    if (!runtime_.executor.Withdraw(ticket_)) return;
    Finish(ToGrpcStatus(absl::CancelledError("the client cancelled the call")));
  }

  void OnDone() override { delete this; }

 private:
  void Run() {
    const absl::Status status = CatchExceptions([this]() -> absl::Status {
      const absl::StatusOr<Caller> caller = AuthorizeCall(runtime_, method_, *context_);
      return caller.ok() ? handler_(*caller) : caller.status();
    });
    handler_ = nullptr;
    Finish(ToGrpcStatus(status));
  }

  const CallRuntime runtime_;
  const absl::string_view method_;
  grpc::CallbackServerContext* const context_;
  Handler handler_;
  Executor::Ticket ticket_;  // set before gRPC calls OnCancel
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
      runtime, method, context, RequestBytes(*request),
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
  return new UnaryCall(runtime, method, context, RequestBytes(*request),
                       [request, response, handler = std::move(handler)](
                           const Caller& caller) mutable -> absl::Status {
                         return handler(*caller.worker, *request, *response);
                       });
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_UNARY_CALL_H_

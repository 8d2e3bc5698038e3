// The reactor of unary methods.
#ifndef LORSA_SERVER_RPC_UNARY_CALL_H_
#define LORSA_SERVER_RPC_UNARY_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "base/exception_wall.h"
#include "base/status_macros.h"
#include "server/rpc/call.h"

namespace lorsa::server {

// Runs `handler` on the executor of the method and finishes the call with its status. A call that
// is cancelled while it waits leaves the queue. Owned by itself until OnDone, which gRPC calls
// once, after Finish, and by its step.
class UnaryCall final : public grpc::ServerUnaryReactor,
                        public std::enable_shared_from_this<UnaryCall> {
 public:
  using Handler = std::function<absl::Status(const Caller&)>;

  UnaryCall(const Method& method, grpc::CallbackServerContext* context, Handler handler)
      : call_(method, *context), handler_(std::move(handler)) {}

  void Start(size_t request_bytes) {
    self_ = shared_from_this();
    const absl::Status admitted = call_.Admit(request_bytes, {shared_from_this(), &UnaryCall::Run});
    if (!admitted.ok()) Finish(call_.End(admitted));
  }

  void OnCancel() override {
    if (call_.Withdraw()) Finish(call_.End(CancelledByClient()));
  }

  void OnDone() override { self_.reset(); }

 private:
  void Run() {
    const absl::Status status = CatchExceptions([this]() -> absl::Status {
      LORSA_ASSIGN_OR_RETURN(const Caller caller, call_.Authorize());
      LORSA_RETURN_IF_ERROR(handler_(caller));
      LORSA_ASSIGN_OR_RETURN(answer_, call_.OpenAnswer(caller));
      answer_->AwaitClient();
      return absl::OkStatus();
    });
    handler_ = nullptr;
    Finish(call_.End(status));
  }

  Call call_;
  Handler handler_;
  std::shared_ptr<UnaryCall> self_;
  std::unique_ptr<OpenStreams::Stream> answer_;
};

// Serves one call: `handler(caller, request, response)` is called on the executor of the method
// once the caller is authorised. `method` outlives the gRPC server.
template <typename Request, typename Response, typename Handler>
grpc::ServerUnaryReactor* ServeUnary(const Method& method, grpc::CallbackServerContext* context,
                                     const Request* request, Response* response, Handler handler) {
  auto call = std::make_shared<UnaryCall>(method, context,
                                          [request, response, handler = std::move(handler)](
                                              const Caller& caller) mutable -> absl::Status {
                                            return handler(caller, *request, *response);
                                          });
  call->Start(RequestBytes(*request));
  return call.get();
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_UNARY_CALL_H_

#include "server/rpc/call_runtime.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exception_wall.h"
#include "server/rpc/errors.h"

namespace lorsa::server {
namespace {

// gRPC's retries (gRFC A6) read the pause, in milliseconds, from this trailer.
constexpr char kPushback[] = "grpc-retry-pushback-ms";

}  // namespace

absl::StatusOr<Executor::Ticket> AdmitCall(const CallRuntime& runtime,
                                           grpc::CallbackServerContext& context,
                                           size_t request_bytes, std::function<void()> first_step) {
  absl::StatusOr<Executor::Ticket> ticket = CatchExceptions(
      [&] { return runtime.executor.Admit(std::move(first_step), context.peer(), request_bytes); });
  if (const auto delay = RetryDelayOf(ticket.status()); delay.has_value()) {
    context.AddTrailingMetadata(kPushback, absl::StrCat(absl::ToInt64Milliseconds(*delay)));
  }
  return ticket;
}

absl::StatusOr<Caller> AuthorizeCall(const CallRuntime& runtime, absl::string_view method,
                                     const grpc::CallbackServerContext& context) {
  if (context.IsCancelled()) return absl::CancelledError("the client cancelled the call");
  if (context.deadline() <= std::chrono::system_clock::now()) {
    return absl::DeadlineExceededError("the deadline of the call passed while it waited");
  }
  return runtime.authorizer.Authorize(method, context);
}

}  // namespace lorsa::server

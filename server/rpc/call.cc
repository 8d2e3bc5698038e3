#include "server/rpc/call.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/exception_wall.h"
#include "base/request_id.h"
#include "server/rpc/grpc_status.h"

namespace lorsa::server {
namespace {

// gRPC's retries (gRFC A6) read the pause, in milliseconds, from this trailer.
constexpr char kPushback[] = "grpc-retry-pushback-ms";

}  // namespace

std::string RequestIdOf(const grpc::CallbackServerContext& context) {
  const auto header = context.client_metadata().find(kRequestIdHeader);
  if (header != context.client_metadata().end()) {
    const absl::string_view id(header->second.data(), header->second.size());
    if (IsRequestId(id)) return std::string(id);
  }
  return NewRequestId();
}

absl::Status Call::Admit(size_t request_bytes, CallStep first_step) {
  absl::StatusOr<Executor::Ticket> ticket = CatchExceptions(
      [&] { return method_.executor.Admit(std::move(first_step), peer_, request_bytes); });
  if (const auto delay = RetryDelayOf(ticket.status()); delay.has_value()) {
    context_.AddTrailingMetadata(kPushback, absl::StrCat(absl::ToInt64Milliseconds(*delay)));
  }
  if (ticket.ok()) ticket_ = *std::move(ticket);
  return ticket.status();
}

absl::StatusOr<Caller> Call::Authorize() const {
  if (context_.IsCancelled()) return CancelledByClient();
  if (context_.deadline() <= std::chrono::system_clock::now()) {
    return absl::DeadlineExceededError("the deadline of the call passed while it waited");
  }
  return server::Authorize(method_.access, method_.calls.tokens, context_);
}

grpc::Status Call::End(const absl::Status& status) {
  const EndedCall call = {.method = method_.name,
                          .peer = peer_,
                          .request_id = request_id_,
                          .duration = MonotonicNow() - arrival_};
  method_.calls.records.Ended(method_.records, call, status);
  return ToGrpcStatus(status, request_id_);
}

}  // namespace lorsa::server

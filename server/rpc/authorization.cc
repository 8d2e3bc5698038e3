#include "server/rpc/authorization.h"

#include <utility>

#include "absl/strings/strip.h"
#include "base/error_details.h"

namespace lorsa::server {
namespace {

constexpr char kTokenHeader[] = "authorization";
constexpr size_t kMaxTokenBytes = 256;

// "ipv4:127.0.0.1:4242" without its port.
std::string HostOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

absl::StatusOr<AttemptKey> WorkerOf(WorkerTokenVerifier& tokens,
                                    const grpc::CallbackServerContext& context) {
  const auto header = context.client_metadata().find(kTokenHeader);
  absl::string_view token;
  if (header != context.client_metadata().end()) {
    token = absl::string_view(header->second.data(), header->second.size());
  }
  if (!absl::ConsumePrefix(&token, "Bearer ") || token.empty() || token.size() > kMaxTokenBytes) {
    return WithReason(absl::UnauthenticatedError(
                          "only workers may call this: send the attempt's token as metadata "
                          "'authorization: Bearer TOKEN'"),
                      "WORKER_TOKEN_MISSING");
  }
  return tokens.VerifyWorkerToken(token);
}

}  // namespace

absl::StatusOr<Caller> Authorize(Access access, WorkerTokenVerifier& tokens,
                                 const grpc::CallbackServerContext& context) {
  Caller caller{.host = HostOf(context.peer())};
  const bool workers_alone = access == Access::kWorker;
  if (!workers_alone && context.client_metadata().count(kTokenHeader) == 0) return caller;
  absl::StatusOr<AttemptKey> worker = WorkerOf(tokens, context);
  if (!worker.ok() && workers_alone) return std::move(worker).status();
  if (worker.ok()) caller.worker = *std::move(worker);
  return caller;
}

}  // namespace lorsa::server

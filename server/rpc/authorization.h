// Who may call what: one table of rules, consulted by the reactor bases of this folder before a
// request is looked at. A method without a rule is denied, so a new RPC stays closed until a line
// here opens it.
#ifndef LORSA_SERVER_RPC_AUTHORIZATION_H_
#define LORSA_SERVER_RPC_AUTHORIZATION_H_

#include <grpcpp/server_context.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {

enum class Access {
  kAnyone,  // whoever reaches the port, which is on loopback unless the operator says otherwise
  kWorker,  // the worker of a job's attempt: metadata "authorization: Bearer <token>"
};

struct MethodRule {
  absl::string_view method;  // full name: "lorsa.v1.JobService.GetJob"
  Access access;
};

// The table.
absl::Span<const MethodRule> MethodRules();

// What knows the tokens. Thread-safe; may block (it is called on an Executor).
class WorkerTokenVerifier {
 public:
  virtual ~WorkerTokenVerifier() = default;
  // The attempt that a token stands for. UNAUTHENTICATED for a token that was never given out;
  // FAILED_PRECONDITION with the reason STALE_ATTEMPT for one of an attempt that is over.
  virtual absl::StatusOr<AttemptKey> VerifyWorkerToken(absl::string_view token) = 0;
};

// Whoever is calling.
struct Caller {
  std::string host;  // address without the port
  // Set for methods with Access::kWorker; for others if a worker sent its token.
  std::optional<AttemptKey> worker;
};

// Thread-safe.
class Authorizer {
 public:
  virtual ~Authorizer() = default;
  // PERMISSION_DENIED for a method without a rule; UNAUTHENTICATED or the verifier's error where a
  // worker's token is asked for.
  virtual absl::StatusOr<Caller> Authorize(absl::string_view method,
                                           const grpc::CallbackServerContext& context) const = 0;
};

// Decides by `rules`.
class TableAuthorizer final : public Authorizer {
 public:
  // `rules` and `tokens` outlive the authorizer.
  TableAuthorizer(absl::Span<const MethodRule> rules, WorkerTokenVerifier& tokens)
      : rules_(rules), tokens_(tokens) {}

  absl::StatusOr<Caller> Authorize(absl::string_view method,
                                   const grpc::CallbackServerContext& context) const override;

 private:
  absl::StatusOr<AttemptKey> WorkerOf(const grpc::CallbackServerContext& context) const;

  absl::Span<const MethodRule> rules_;
  WorkerTokenVerifier& tokens_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_AUTHORIZATION_H_

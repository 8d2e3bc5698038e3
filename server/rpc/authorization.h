// Who may call what. Each method has a rule (rpc_service.h), which its reactor applies before it
// looks at the request.
#ifndef LORSA_SERVER_RPC_AUTHORIZATION_H_
#define LORSA_SERVER_RPC_AUTHORIZATION_H_

#include <grpcpp/server_context.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/model/attempt_key.h"

namespace lorsa::server {

enum class Access {
  kAnyone,  // whoever reaches the port, which is on loopback unless the operator says otherwise
  kWorker,  // the worker of a job's attempt: metadata "authorization: Bearer <token>"
};

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

// UNAUTHENTICATED or the verifier's error if `access` asks for a worker's token.
absl::StatusOr<Caller> Authorize(Access access, WorkerTokenVerifier& tokens,
                                 const grpc::CallbackServerContext& context);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_AUTHORIZATION_H_

// What every handler needs, and the first steps that all of them share.
#ifndef LORSA_SERVER_RPC_CALL_RUNTIME_H_
#define LORSA_SERVER_RPC_CALL_RUNTIME_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message_lite.h"
#include "server/rpc/authorization.h"
#include "server/rpc/executor.h"
#include "server/rpc/open_streams.h"

namespace lorsa::server {

// All outlive the gRPC server. Copied freely.
struct CallRuntime {
  Executor& executor;
  const Authorizer& authorizer;
  OpenStreams& streams;
};

inline size_t RequestBytes(const google::protobuf::MessageLite& request) {
  return request.ByteSizeLong();
}
inline size_t RequestBytes(const grpc::ByteBuffer& request) { return request.Length(); }

// Queues the first step of a call, on a thread of gRPC. As Executor::Admit; advice when to try
// again also goes where gRPC's own retries look for it.
absl::StatusOr<Executor::Ticket> AdmitCall(const CallRuntime& runtime,
                                           grpc::CallbackServerContext& context,
                                           size_t request_bytes, std::function<void()> first_step);

// Opens the first step, on the executor, before anything of the request is read: CANCELLED or
// DEADLINE_EXCEEDED if nobody waits for the call any more, else what the authorizer says.
absl::StatusOr<Caller> AuthorizeCall(const CallRuntime& runtime, absl::string_view method,
                                     const grpc::CallbackServerContext& context);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_CALL_RUNTIME_H_

#ifndef LORSA_SERVER_RPC_GRPC_STATUS_H_
#define LORSA_SERVER_RPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace lorsa::server {

// `status` for gRPC, with its details (base/error_details.h).
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_GRPC_STATUS_H_

#ifndef LORSA_SERVER_RPC_GRPC_STATUS_H_
#define LORSA_SERVER_RPC_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lorsa::server {

// `status` for gRPC, with its details (base/error_details.h) and, unless it is OK or the id is
// empty, a google.rpc.RequestInfo.
grpc::Status ToGrpcStatus(const absl::Status& status, absl::string_view request_id = "");

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_GRPC_STATUS_H_

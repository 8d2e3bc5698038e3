#include "server/rpc/grpc_status.h"

#include "base/error_details.h"

namespace lorsa::server {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status rpc = ToRpcStatus(status);
  return grpc::Status(static_cast<grpc::StatusCode>(rpc.code()), rpc.message(),
                      rpc.SerializeAsString());
}

}  // namespace lorsa::server

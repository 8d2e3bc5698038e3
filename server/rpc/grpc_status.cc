#include "server/rpc/grpc_status.h"

#include <string>

#include "base/error_details.h"
#include "google/rpc/error_details.pb.h"

namespace lorsa::server {

grpc::Status ToGrpcStatus(const absl::Status& status, absl::string_view request_id) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status rpc = ToRpcStatus(status);
  if (!request_id.empty()) {
    google::rpc::RequestInfo info;
    info.set_request_id(std::string(request_id));
    rpc.add_details()->PackFrom(info);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(rpc.code()), rpc.message(),
                      rpc.SerializeAsString());
}

}  // namespace lorsa::server

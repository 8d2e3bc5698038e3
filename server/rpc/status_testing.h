// For tests: what a client finds in the status of a call.
#ifndef LORSA_SERVER_RPC_STATUS_TESTING_H_
#define LORSA_SERVER_RPC_STATUS_TESTING_H_

#include <grpcpp/support/status.h>

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace lorsa::server {

// The reason in its ErrorInfo; empty if it has none.
inline std::string ReasonIn(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details()) || details.details_size() == 0 ||
      !details.details(0).UnpackTo(&info)) {
    return "";
  }
  return info.reason();
}

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_STATUS_TESTING_H_

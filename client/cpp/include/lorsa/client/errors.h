// From the errors of a call to absl::Status, whose message is fit to show to a person.
#ifndef LORSA_CLIENT_ERRORS_H_
#define LORSA_CLIENT_ERRORS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lorsa::client {

// The status of a finished call: the server's sentence and, below it, one indented line for each
// field that google.rpc.BadRequest names. If the server is at fault, the last line names the
// request, for whoever reads the server's log.
absl::Status StatusFromGrpc(const grpc::Status& status);

// UNAVAILABLE for a connection that broke or was never made; IsTransient holds.
absl::Status ConnectionError(absl::string_view message);

// google.rpc.ErrorInfo.reason of the server, such as STALE_ATTEMPT; empty if it gave none.
std::string ErrorReason(const absl::Status& status);

// What names the call in the server's log; empty if no server answered.
std::string ErrorRequestId(const absl::Status& status);

// Whether the same call may succeed a little later: the connection broke, or the server said
// UNAVAILABLE. False for every error of this side, such as a disk that cannot be read.
bool IsTransient(const absl::Status& status);

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_ERRORS_H_

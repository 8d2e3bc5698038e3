#include "lorsa/client/errors.h"

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace lorsa::client {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kRequestInfoUrl[] = "type.googleapis.com/google.rpc.RequestInfo";
constexpr char kTransientUrl[] = "lorsa/transient";

// gRPC reports some broken connections with codes that servers use as well; its own texts tell
// them apart (RFC 7540 stream resets, and "Stream removed" when a transport is closed).
bool IsBrokenConnection(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
      return true;
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return absl::StrContains(status.error_message(), "RST_STREAM") ||
             absl::StrContains(status.error_message(), "Stream removed");
    default:
      return false;
  }
}

// The server's message with its violations one a line, and nothing said twice: a server may have
// joined the violations to its message.
std::string Sentence(std::string message, const google::rpc::BadRequest& bad_request) {
  const int count = bad_request.field_violations_size();
  if (count == 0) return message;
  if (absl::StrContains(message, bad_request.field_violations(0).description())) {
    if (count == 1) return message;
    message = absl::StrCat(count, " fields are wrong:");
  }
  for (const auto& violation : bad_request.field_violations()) {
    absl::StrAppend(&message, "\n  ", violation.field(), ": ", violation.description());
  }
  return message;
}

bool IsFaultOfServer(grpc::StatusCode code) {
  return code == grpc::StatusCode::INTERNAL || code == grpc::StatusCode::UNKNOWN ||
         code == grpc::StatusCode::DATA_LOSS;
}

template <typename Message>
Message PayloadOf(const absl::Status& status, const char* type_url) {
  Message message;
  const auto payload = status.GetPayload(type_url);
  if (payload.has_value() && !message.ParseFromString(std::string(*payload))) return {};
  return message;
}

template <typename Message>
void SetPayload(absl::Status& status, const char* type_url, const Message& message) {
  status.SetPayload(type_url, absl::Cord(message.SerializeAsString()));
}

}  // namespace

absl::Status StatusFromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad_request;
  google::rpc::RequestInfo request;
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) {
      (void)(detail.UnpackTo(&info) || detail.UnpackTo(&bad_request) || detail.UnpackTo(&request));
    }
  }
  std::string message = Sentence(status.error_message(), bad_request);
  if (info.reason().empty() && IsBrokenConnection(status)) return ConnectionError(message);
  if (IsFaultOfServer(status.error_code()) && !request.request_id().empty()) {
    absl::StrAppend(&message, "\n  request ", request.request_id(), " in the server's log");
  }
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), message);
  if (!info.reason().empty()) {
    SetPayload(result, kErrorInfoUrl, info);
  }
  if (!request.request_id().empty()) SetPayload(result, kRequestInfoUrl, request);
  if (absl::IsUnavailable(result)) result.SetPayload(kTransientUrl, absl::Cord());
  return result;
}

absl::Status ConnectionError(absl::string_view message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kTransientUrl, absl::Cord());
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  return PayloadOf<google::rpc::ErrorInfo>(status, kErrorInfoUrl).reason();
}

std::string ErrorRequestId(const absl::Status& status) {
  return PayloadOf<google::rpc::RequestInfo>(status, kRequestInfoUrl).request_id();
}

bool IsTransient(const absl::Status& status) {
  return status.GetPayload(kTransientUrl).has_value();
}

}  // namespace lorsa::client

#include "client/cpp/errors.h"

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace lorsa::client {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
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

}  // namespace

absl::Status StatusFromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  std::string message = status.error_message();
  google::rpc::ErrorInfo info;
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) {
      google::rpc::BadRequest bad_request;
      if (detail.UnpackTo(&info) || !detail.UnpackTo(&bad_request)) continue;
      for (const auto& violation : bad_request.field_violations()) {
        absl::StrAppend(&message, "\n  ", violation.field(), ": ", violation.description());
      }
    }
  }
  if (info.reason().empty() && IsBrokenConnection(status)) return ConnectionError(message);
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), message);
  if (!info.reason().empty())
    result.SetPayload(kErrorInfoUrl, absl::Cord(info.SerializeAsString()));
  if (absl::IsUnavailable(result)) result.SetPayload(kTransientUrl, absl::Cord());
  return result;
}

absl::Status ConnectionError(absl::string_view message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kTransientUrl, absl::Cord());
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  google::rpc::ErrorInfo info;
  const auto payload = status.GetPayload(kErrorInfoUrl);
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return "";
  return info.reason();
}

bool IsTransient(const absl::Status& status) {
  return status.GetPayload(kTransientUrl).has_value();
}

}  // namespace lorsa::client

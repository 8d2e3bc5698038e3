#include "base/error_details.h"

#include <google/protobuf/util/time_util.h>

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "google/rpc/error_details.pb.h"

namespace lorsa {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";

constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

// Together these stay well below 8 KiB after the base64 of the trailer, sentence counted twice.
constexpr size_t kMaxSentenceBytes = 1024;
constexpr size_t kMaxViolationBytes = 2048;  // all of them together
constexpr size_t kMaxMetadataValueBytes = 256;

template <typename Message>
std::optional<Message> PayloadOf(const absl::Status& status, const char* type_url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(type_url);
  Message message;
  if (!payload.has_value() || !message.ParseFromString(std::string(*payload))) return std::nullopt;
  return message;
}

template <typename Message>
void SetPayload(absl::Status& status, const char* type_url, const Message& message) {
  status.SetPayload(type_url, absl::Cord(message.SerializeAsString()));
}

google::rpc::ErrorInfo ErrorInfoOf(const absl::Status& status) {
  if (auto info = PayloadOf<google::rpc::ErrorInfo>(status, kErrorInfoUrl)) return *std::move(info);
  google::rpc::ErrorInfo info;
  info.set_reason(absl::StatusCodeToString(status.code()));
  info.set_domain(kErrorDomain);
  return info;
}

google::rpc::BadRequest BadRequestOf(const std::vector<FieldViolation>& violations) {
  google::rpc::BadRequest bad_request;
  for (size_t bytes = 0; const FieldViolation& violation : violations) {
    auto* field = bad_request.add_field_violations();
    field->set_field(Utf8Prefix(violation.field, kMaxMetadataValueBytes));
    field->set_description(Utf8Prefix(violation.description, kMaxSentenceBytes));
    bytes += field->ByteSizeLong();
    if (bytes > kMaxViolationBytes) break;
  }
  return bad_request;
}

}  // namespace

absl::Status WithReason(absl::Status status, absl::string_view reason,
                        const std::map<std::string, std::string>& metadata) {
  if (status.ok() || status.GetPayload(kErrorInfoUrl).has_value()) return status;
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(kErrorDomain);
  for (const auto& [key, value] : metadata) {
    (*info.mutable_metadata())[key] = Utf8Prefix(value, kMaxMetadataValueBytes);
  }
  SetPayload(status, kErrorInfoUrl, info);
  return status;
}

std::string ReasonOf(const absl::Status& status) { return ErrorInfoOf(status).reason(); }

absl::Status InvalidFields(const std::vector<FieldViolation>& violations) {
  std::string sentence;
  for (const FieldViolation& violation : violations) {
    absl::StrAppend(&sentence, sentence.empty() ? "" : "; ", violation.field, ": ",
                    violation.description);
  }
  absl::Status status = absl::InvalidArgumentError(sentence);
  SetPayload(status, kBadRequestUrl, BadRequestOf(violations));
  return WithReason(std::move(status), "INVALID_FIELDS");
}

absl::Status InvalidField(absl::string_view field, absl::string_view description) {
  return InvalidFields({{std::string(field), std::string(description)}});
}

absl::Status ForField(absl::Status status, absl::string_view field) {
  if (!absl::IsInvalidArgument(status) || status.GetPayload(kBadRequestUrl).has_value()) {
    return status;
  }
  SetPayload(status, kBadRequestUrl,
             BadRequestOf({{std::string(field), std::string(status.message())}}));
  return WithReason(std::move(status), "INVALID_FIELDS");
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  google::rpc::RetryInfo info;
  *info.mutable_retry_delay() =
      google::protobuf::util::TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(delay));
  SetPayload(status, kRetryInfoUrl, info);
  return status;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto info = PayloadOf<google::rpc::RetryInfo>(status, kRetryInfoUrl);
  if (!info.has_value()) return std::nullopt;
  return absl::Nanoseconds(
      google::protobuf::util::TimeUtil::DurationToNanoseconds(info->retry_delay()));
}

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status rpc;
  rpc.set_code(static_cast<int>(status.code()));
  rpc.set_message(Utf8Prefix(status.message(), kMaxSentenceBytes));
  rpc.add_details()->PackFrom(ErrorInfoOf(status));
  if (auto bad_request = PayloadOf<google::rpc::BadRequest>(status, kBadRequestUrl)) {
    rpc.add_details()->PackFrom(*bad_request);
  }
  if (auto retry = PayloadOf<google::rpc::RetryInfo>(status, kRetryInfoUrl)) {
    rpc.add_details()->PackFrom(*retry);
  }
  return rpc;
}

}  // namespace lorsa

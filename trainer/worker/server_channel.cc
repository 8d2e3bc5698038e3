#include "trainer/worker/server_channel.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/request_id.h"
#include "base/status_macros.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace lorsa::worker {
namespace {

constexpr uint64_t kMaxEndpointBytes = 1024;
// One sequence, input and output, is at most 1 GiB (docs/activation_format.md); gRPC counts in int.
constexpr int kMaxMessageBytes = (1 << 30) + (64 << 20);

}  // namespace

absl::StatusOr<std::string> ServerChannel::Address() const {
  if (!bootstrap_.endpoint().empty()) return bootstrap_.endpoint();
  const auto contents = ReadFile(fs_, bootstrap_.endpoint_file(), kMaxEndpointBytes);
  if (!contents.ok()) {
    return absl::UnavailableError(
        absl::StrCat("the server is not running: ", contents.status().message()));
  }
  return std::string(absl::StripAsciiWhitespace(*contents));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ServerChannel::Get() {
  LORSA_ASSIGN_OR_RETURN(const std::string address, Address());
  absl::MutexLock lock(&mutex_);
  if (channel_ == nullptr || address != address_) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
    // Calls carry the attempt's token: they go to the server, past proxies for the web.
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
    // A server that vanished without a word is noticed within a minute.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 40'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    address_ = address;
  }
  return channel_;
}

void ServerChannel::Authorize(grpc::ClientContext& context) const {
  context.AddMetadata("authorization", absl::StrCat("Bearer ", bootstrap_.token()));
  context.AddMetadata(kRequestIdHeader, NewRequestId());
}

absl::Status FromGrpc(const grpc::Status& status) {
  std::string message = status.error_message();
  google::rpc::Status details;
  google::rpc::RequestInfo request;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : details.details()) detail.UnpackTo(&request);
  }
  if (!request.request_id().empty()) {
    absl::StrAppend(&message, " (request ", request.request_id(), ")");
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), message);
}

bool IsTransient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:  // the server's side of a stream went away
    case absl::StatusCode::kInternal:   // a reset stream
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:  // its disk is full, or too many streams are open
      return true;
    default:
      return false;
  }
}

}  // namespace lorsa::worker

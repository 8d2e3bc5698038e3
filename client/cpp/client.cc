#include "lorsa/client/client.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status_macros.h"

namespace lorsa::client {
namespace {

// Chunks and sequences are about 1 MiB a message; one long sequence may be larger.
constexpr int kMaxReceiveBytes = 16 << 20;
constexpr int kMaxSendBytes = 4 << 20;

// Calls that may be sent twice without harm.
constexpr char kServiceConfig[] = R"json({
  "methodConfig": [{
    "name": [
      {"service": "lorsa.v1.ServerInfoService"},
      {"service": "lorsa.v1.JobService", "method": "CreateJob"},
      {"service": "lorsa.v1.JobService", "method": "ForkJob"},
      {"service": "lorsa.v1.JobService", "method": "CreateSweep"},
      {"service": "lorsa.v1.JobService", "method": "GetSweep"},
      {"service": "lorsa.v1.JobService", "method": "ListSweeps"},
      {"service": "lorsa.v1.JobService", "method": "GetJob"},
      {"service": "lorsa.v1.JobService", "method": "ListJobs"},
      {"service": "lorsa.v1.MetricService", "method": "QueryMetrics"},
      {"service": "lorsa.v1.ActivationService", "method": "GetActivationSet"},
      {"service": "lorsa.v1.ActivationService", "method": "GetUpload"},
      {"service": "lorsa.v1.ActivationService", "method": "ListActivationSets"},
      {"service": "lorsa.v1.CheckpointService", "method": "GetCheckpoint"},
      {"service": "lorsa.v1.CheckpointService", "method": "ListCheckpoints"}
    ],
    "retryPolicy": {
      "maxAttempts": 4,
      "initialBackoff": "0.1s",
      "maxBackoff": "1s",
      "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }]
})json";

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  arguments.SetMaxSendMessageSize(kMaxSendBytes);
  arguments.SetServiceConfigJSON(kServiceConfig);
  // A peer that vanished without a word is noticed within a minute.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 40'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // gRPC's own pause between connections may reach two minutes; a restarted server is up sooner.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // How long making a connection may take, despite its name: a busy machine needs more than the
  // pause, and a call that is not repeated would fail. A refusal is one at once.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  // Two clients of one process share no state, and a proxy meant for the web is not asked.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

absl::Status ValidateServer(const std::string& server) {
  const size_t colon = server.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(server.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("server '", server, "' is not of the form HOST:PORT, such as 127.0.0.1:7070"));
  }
  return absl::OkStatus();
}

template <typename Stubs>
Stubs MakeStubs(const std::shared_ptr<grpc::Channel>& channel) {
  return {v1::ActivationService::NewStub(channel), v1::CheckpointService::NewStub(channel),
          v1::JobService::NewStub(channel), v1::MetricService::NewStub(channel),
          v1::ServerInfoService::NewStub(channel)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(const ClientOptions& options) {
  LORSA_RETURN_IF_ERROR(ValidateServer(options.server));
  return std::unique_ptr<Client>(new Client(options));
}

Client::Client(const ClientOptions& options)
    : options_(options),
      own_file_system_(options.file_system ? nullptr : std::make_unique<PosixFileSystem>()),
      file_system_(options.file_system ? options.file_system : own_file_system_.get()),
      stubs_(MakeStubs<decltype(stubs_)>(grpc::CreateCustomChannel(
          options.server, grpc::InsecureChannelCredentials(), Arguments()))) {}

Client::~Client() = default;

absl::Status Client::KeepConnected(absl::FunctionRef<absl::Status(bool& received)> connect,
                                   const OutageFunction& on_outage) {
  absl::Duration pause = options_.initial_backoff;
  absl::Duration outage = absl::ZeroDuration();
  while (true) {
    bool received = false;
    const absl::Status status = connect(received);
    if (status.ok() || !IsTransient(status) || !answered_) return status;
    if (received) {
      pause = options_.initial_backoff;
      outage = absl::ZeroDuration();
    }
    if (outage >= options_.max_outage) return status;
    if (on_outage) on_outage(status, pause);
    if (!registry_.SleepFor(pause)) return absl::CancelledError("interrupted");
    outage += pause;
    pause = std::min(2 * pause, options_.max_backoff);
  }
}

absl::Status Client::Finished(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  if (registry_.cancelled()) return absl::CancelledError("interrupted");
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::DeadlineExceededError(
        absl::StrCat("the server at ", options_.server, " did not answer within ",
                     absl::FormatDuration(options_.call_deadline), ": try again later"));
  }
  return StatusFromGrpc(status);
}

}  // namespace lorsa::client

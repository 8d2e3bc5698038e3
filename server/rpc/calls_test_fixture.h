// A real gRPC server in this process whose services are the product's own, with handlers that each
// test brings: for tests of the reactor bases.
#ifndef LORSA_SERVER_RPC_CALLS_TEST_FIXTURE_H_
#define LORSA_SERVER_RPC_CALLS_TEST_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lorsa/v1/metric_service.grpc.pb.h"
#include "lorsa/v1/server_info_service.grpc.pb.h"
#include "lorsa/v1/worker_service.grpc.pb.h"
#include "server/rpc/bidi_stream.h"
#include "server/rpc/server_stream.h"
#include "server/rpc/unary_call.h"

namespace lorsa::server {

inline constexpr char kUnary[] = "lorsa.v1.ServerInfoService.GetServerInfo";
inline constexpr char kStream[] = "lorsa.v1.MetricService.StreamMetrics";
inline constexpr char kBidi[] = "lorsa.v1.WorkerService.Session";

class FakeTokens final : public WorkerTokenVerifier {
 public:
  absl::StatusOr<AttemptKey> VerifyWorkerToken(absl::string_view token) override {
    if (token == "good") return AttemptKey{.job_id = "demo", .attempt = 3};
    return absl::UnauthenticatedError("unknown token");
  }
};

class InfoService final : public v1::ServerInfoService::CallbackService {
 public:
  CallRuntime* runtime;
  std::function<absl::Status(const v1::GetServerInfoRequest&, v1::ServerInfo&)> handler;

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const v1::GetServerInfoRequest* request,
                                          v1::ServerInfo* response) override {
    return ServeUnary(*runtime, kUnary, context, request, response, handler);
  }
};

class StreamService final : public v1::MetricService::CallbackService {
 public:
  CallRuntime* runtime;
  Executor* pulling = nullptr;  // null: the runtime's
  SourceOpener<v1::StreamMetricsResponse> open;

  grpc::ServerWriteReactor<v1::StreamMetricsResponse>* StreamMetrics(
      grpc::CallbackServerContext* context, const v1::StreamMetricsRequest* request) override {
    return ServeStream<v1::StreamMetricsResponse>(*runtime, kStream, context, request,
                                                  pulling == nullptr ? runtime->executor : *pulling,
                                                  open);
  }
};

class SessionService final : public v1::WorkerService::CallbackService {
 public:
  CallRuntime* runtime;
  HandlerOpener<v1::WorkerMessage, v1::ServerMessage> open;

  grpc::ServerBidiReactor<v1::WorkerMessage, v1::ServerMessage>* Session(
      grpc::CallbackServerContext* context) override {
    return ServeBidi<v1::WorkerMessage, v1::ServerMessage>(*runtime, kBidi, context, open);
  }
};

// False if `condition` does not come true within a minute.
template <typename Condition>
bool ComesTrue(Condition condition) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

class Calls : public testing::Test {
 protected:
  // Called when the handlers are in place.
  void StartServer() {
    info_.runtime = stream_.runtime = session_.runtime = &runtime_;
    grpc::ServerBuilder builder;
    builder.RegisterService(&info_);
    builder.RegisterService(&stream_);
    builder.RegisterService(&session_);
    server_ = builder.BuildAndStart();
    channel_ = server_->InProcessChannel({});
  }

  // After this no handler runs any more and every source is released.
  void StopServer() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    executor_.reset();
  }

  void TearDown() override { StopServer(); }

  FakeTokens tokens_;
  absl::Span<const MethodRule> rules_ = MethodRules();
  std::unique_ptr<Executor> executor_ = std::make_unique<Executor>(2);
  std::unique_ptr<TableAuthorizer> authorizer_ = std::make_unique<TableAuthorizer>(rules_, tokens_);
  OpenStreams streams_{StreamLimits{}};
  CallRuntime runtime_{*executor_, *authorizer_, streams_};
  InfoService info_;
  StreamService stream_;
  SessionService session_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_CALLS_TEST_FIXTURE_H_

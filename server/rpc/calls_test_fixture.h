// A real gRPC server in this process whose services are the product's own, with handlers that each
// test brings: for tests of the reactor bases.
#ifndef LORSA_SERVER_RPC_CALLS_TEST_FIXTURE_H_
#define LORSA_SERVER_RPC_CALLS_TEST_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lorsa/v1/metric_service.grpc.pb.h"
#include "lorsa/v1/server_info_service.grpc.pb.h"
#include "lorsa/v1/worker_service.grpc.pb.h"
#include "server/rpc/rpc_service.h"

namespace lorsa::server {

class FakeTokens final : public WorkerTokenVerifier {
 public:
  absl::StatusOr<AttemptKey> VerifyWorkerToken(absl::string_view token) override {
    if (token == "good") return AttemptKey{.job_id = "demo", .attempt = 3};
    return absl::UnauthenticatedError("unknown token");
  }
};

// What tests make the methods do.
struct InfoHandler {
  std::function<absl::Status(const v1::GetServerInfoRequest&, v1::ServerInfo&)> handler;

  absl::Status Get(const Caller&, const v1::GetServerInfoRequest& request, v1::ServerInfo& info) {
    return handler(request, info);
  }
};
struct StreamHandler {
  SourceOpener<v1::StreamMetricsResponse> open;
  Executor* pulling = nullptr;  // null: that of the first step

  OpenedSource<v1::StreamMetricsResponse> Open(const Caller& caller,
                                               const v1::StreamMetricsRequest&, Waker waker) {
    return open(caller, std::move(waker));
  }
};
struct SessionHandler {
  HandlerOpener<v1::WorkerMessage, v1::ServerMessage> open;

  OpenedHandler<v1::WorkerMessage> Open(const Caller& caller,
                                        std::shared_ptr<BidiSender<v1::ServerMessage>> sender) {
    return open(caller, std::move(sender));
  }
};

class InfoService final : public RpcService {
 public:
  InfoService(const CallEnvironment& calls, Access access, Executor& executor, InfoHandler& handler)
      : RpcService("lorsa.v1.ServerInfoService", calls) {
    Unary({"GetServerInfo", access, executor}, handler, &InfoHandler::Get);
  }
};
class StreamService final : public RpcService {
 public:
  StreamService(const CallEnvironment& calls, Access access, Executor& executor,
                StreamHandler& handler)
      : RpcService("lorsa.v1.MetricService", calls) {
    ServerStreaming({"StreamMetrics", access, executor}, handler, &StreamHandler::Open,
                    handler.pulling);
  }
};
class SessionService final : public RpcService {
 public:
  SessionService(const CallEnvironment& calls, Executor& executor, SessionHandler& handler)
      : RpcService("lorsa.v1.WorkerService", calls) {
    Bidirectional({"Session", Access::kWorker, executor}, handler, &SessionHandler::Open);
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
  void StartServer(Access access = Access::kAnyone) {
    grpc::ServerBuilder builder;
    MakeServices(access, streams_);
    for (const auto& service : services_) builder.RegisterService(service.get());
    server_ = builder.BuildAndStart();
    channel_ = server_->InProcessChannel({});
  }

  // The same where flow control is the transport's.
  void StartServerOverASocket(OpenStreams& streams) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    MakeServices(Access::kAnyone, streams);
    for (const auto& service : services_) builder.RegisterService(service.get());
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials());
  }

  // After this no handler runs any more and every source is released.
  void StopServer() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    executor_.reset();
  }

  void TearDown() override { StopServer(); }

  FakeTokens tokens_;
  std::unique_ptr<Executor> executor_ = std::make_unique<Executor>(2);
  OpenStreams streams_{"streams", {}};
  OpenStreams answers_{"answers", {}};
  CallRecords records_;
  InfoHandler info_;
  StreamHandler stream_;
  SessionHandler session_;
  std::vector<std::unique_ptr<RpcService>> services_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;

 private:
  void MakeServices(Access access, OpenStreams& streams) {
    const CallEnvironment calls{tokens_, streams, answers_, records_};
    services_.push_back(std::make_unique<InfoService>(calls, access, *executor_, info_));
    services_.push_back(std::make_unique<StreamService>(calls, access, *executor_, stream_));
    services_.push_back(std::make_unique<SessionService>(calls, *executor_, session_));
  }
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_CALLS_TEST_FIXTURE_H_

#include "server/rpc/client_stream.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "lorsa/v1/activation_service.grpc.pb.h"
#include "server/rpc/calls_test_fixture.h"

namespace lorsa::server {
namespace {

constexpr char kMethod[] = "lorsa.v1.ActivationService.UploadShard";

// Adds up the bytes; fails at a piece that says "bad". Counts itself as long as it lives.
class Adder final : public StreamSink<v1::UploadShardRequest, v1::UploadedFile> {
 public:
  explicit Adder(std::atomic<int>& alive) : alive_(alive) { ++alive_; }
  ~Adder() override { --alive_; }

  absl::Status OnMessage(const v1::UploadShardRequest& message) override {
    if (message.data().data() == "bad") return absl::DataLossError("a bad piece");
    bytes_ += static_cast<int64_t>(message.data().data().size());
    return absl::OkStatus();
  }
  absl::StatusOr<v1::UploadedFile> Finish() override {
    v1::UploadedFile file;
    file.set_received_bytes(bytes_);
    return file;
  }

 private:
  std::atomic<int>& alive_;
  int64_t bytes_ = 0;
};

class UploadService final : public v1::ActivationService::CallbackService {
 public:
  CallRuntime* runtime = nullptr;
  Executor* long_work = nullptr;
  SinkOpener<v1::UploadShardRequest, v1::UploadedFile> open;

  grpc::ServerReadReactor<v1::UploadShardRequest>* UploadShard(
      grpc::CallbackServerContext* context, v1::UploadedFile* response) override {
    return ServeClientStream<v1::UploadShardRequest, v1::UploadedFile>(*runtime, kMethod, context,
                                                                       response, *long_work, open);
  }
};

class ClientStreams : public testing::Test {
 protected:
  void StartServer(absl::Span<const MethodRule> rules = MethodRules()) {
    authorizer_ = std::make_unique<TableAuthorizer>(rules, tokens_);
    runtime_ = std::make_unique<CallRuntime>(CallRuntime{*executor_, *authorizer_, streams_});
    service_.runtime = runtime_.get();
    service_.long_work = long_work_.get();
    if (service_.open == nullptr) {
      service_.open = [this](const Caller&) { return std::make_unique<Adder>(alive_); };
    }
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    stub_ = v1::ActivationService::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                               grpc::InsecureChannelCredentials()));
  }
  void TearDown() override { StopServer(); }

  void StopServer() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    long_work_.reset();
    executor_.reset();
    EXPECT_EQ(alive_, 0);
  }

  static v1::UploadShardRequest Piece(const std::string& data) {
    v1::UploadShardRequest request;
    request.mutable_data()->set_data(data);
    return request;
  }

  std::atomic<int> alive_ = 0;
  FakeTokens tokens_;
  std::unique_ptr<Executor> executor_ = std::make_unique<Executor>(2);
  std::unique_ptr<Executor> long_work_ = std::make_unique<Executor>(1);
  std::unique_ptr<TableAuthorizer> authorizer_;
  OpenStreams streams_{StreamLimits{}};
  std::unique_ptr<CallRuntime> runtime_;
  UploadService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::ActivationService::Stub> stub_;
};

TEST_F(ClientStreams, HandleEveryMessageThenAnswer) {
  StartServer();
  grpc::ClientContext context;
  v1::UploadedFile response;
  auto writer = stub_->UploadShard(&context, &response);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(writer->Write(Piece(std::string(1000, 'x'))));
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(response.received_bytes(), 200'000);
}

TEST_F(ClientStreams, AreEndedWhenTheirClientSendsNothing) {
  OpenStreams streams({.stall = absl::Milliseconds(200)});
  StartServer();
  CallRuntime runtime{*executor_, *authorizer_, streams};
  service_.runtime = &runtime;
  grpc::ClientContext context;
  v1::UploadedFile response;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  auto writer = stub_->UploadShard(&context, &response);
  ASSERT_TRUE(writer->Write(Piece("x")));
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  StopServer();
}

TEST_F(ClientStreams, AnErrorEndsTheCallBeforeTheRestIsSent) {
  StartServer();
  grpc::ClientContext context;
  v1::UploadedFile response;
  auto writer = stub_->UploadShard(&context, &response);
  ASSERT_TRUE(writer->Write(Piece("bad")));
  while (writer->Write(Piece(std::string(1000, 'x')))) {
  }
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::DATA_LOSS);
}

TEST_F(ClientStreams, AClientThatLeavesReleasesTheSink) {
  StartServer();
  grpc::ClientContext context;
  v1::UploadedFile response;
  auto writer = stub_->UploadShard(&context, &response);
  ASSERT_TRUE(writer->Write(Piece("x")));
  while (alive_ == 0) absl::SleepFor(absl::Milliseconds(1));
  context.TryCancel();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  for (int i = 0; i < 10'000 && alive_ > 0; ++i) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(alive_, 0);
}

TEST_F(ClientStreams, WithoutARuleNothingIsOpened) {
  bool opened = false;
  service_.open = [&](const Caller&) {
    opened = true;
    return std::make_unique<Adder>(alive_);
  };
  StartServer({});
  grpc::ClientContext context;
  v1::UploadedFile response;
  auto writer = stub_->UploadShard(&context, &response);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_FALSE(opened);
}

}  // namespace
}  // namespace lorsa::server

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

struct UploadHandler {
  SinkOpener<v1::UploadShardRequest, v1::UploadedFile> open;

  OpenedSink<v1::UploadShardRequest, v1::UploadedFile> Open(const Caller& caller) {
    return open(caller);
  }
};

class UploadService final : public RpcService {
 public:
  UploadService(const CallEnvironment& calls, Access access, Executor& executor,
                Executor& long_work, UploadHandler& handler)
      : RpcService("lorsa.v1.ActivationService", calls) {
    ClientStreaming({"UploadShard", access, executor}, handler, long_work, &UploadHandler::Open);
  }
};

class ClientStreams : public testing::Test {
 protected:
  void StartServer(Access access = Access::kAnyone) { StartServer(access, streams_); }

  void StartServer(Access access, OpenStreams& streams) {
    service_ =
        std::make_unique<UploadService>(CallEnvironment{tokens_, streams, answers_, records_},
                                        access, *executor_, *long_work_, handler_);
    if (handler_.open == nullptr) {
      handler_.open = [this](const Caller&) { return std::make_unique<Adder>(alive_); };
    }
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
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
  OpenStreams streams_{"streams", {}};
  OpenStreams answers_{"answers", {}};
  CallRecords records_;
  UploadHandler handler_;
  std::unique_ptr<UploadService> service_;
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
  OpenStreams streams("streams", {.stall = absl::Milliseconds(200)});
  StartServer(Access::kAnyone, streams);
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

TEST_F(ClientStreams, OfWorkersAreNotOpenedForOthers) {
  bool opened = false;
  handler_.open = [&](const Caller&) {
    opened = true;
    return std::make_unique<Adder>(alive_);
  };
  StartServer(Access::kWorker);
  grpc::ClientContext context;
  v1::UploadedFile response;
  auto writer = stub_->UploadShard(&context, &response);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_FALSE(opened);
}

}  // namespace
}  // namespace lorsa::server

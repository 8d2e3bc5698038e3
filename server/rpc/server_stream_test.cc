#include "server/rpc/server_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/rpc/calls_test_fixture.h"

namespace lorsa::server {
namespace {

// Counts up to `end`, then ends with `status`. Counts itself as long as it lives.
class Counter final : public StreamSource<v1::StreamMetricsResponse> {
 public:
  Counter(int end, absl::Status status, std::atomic<int>& alive, std::atomic<int>& produced)
      : end_(end), status_(std::move(status)), alive_(alive), produced_(produced) {
    ++alive_;
  }
  ~Counter() override { --alive_; }

  absl::StatusOr<Pulled> Next(v1::StreamMetricsResponse& message) override {
    if (produced_ == end_) {
      if (status_.ok()) return Pulled::kEnd;
      return status_;
    }
    message.Clear();
    auto* point = message.add_points();
    point->set_step(++produced_);
    (*point->mutable_values())[std::string(16 << 10, 'x')] = 1;
    return Pulled::kMessage;
  }

 private:
  const int end_;
  const absl::Status status_;
  std::atomic<int>& alive_;
  std::atomic<int>& produced_;
};

class Streams : public Calls {
 protected:
  SourceOpener<v1::StreamMetricsResponse> CountTo(int end, absl::Status status = {}) {
    return [=, this](Waker) { return std::make_unique<Counter>(end, status, alive_, produced_); };
  }

  std::atomic<int> alive_ = 0;
  std::atomic<int> produced_ = 0;
};

TEST_F(Streams, DeliverEveryMessageInOrderThenTheStatus) {
  stream_.open = CountTo(500, absl::DataLossError("the shard ends early"));
  StartServer();
  grpc::ClientContext context;
  auto stream = v1::MetricService::NewStub(channel_)->StreamMetrics(&context, {});
  v1::StreamMetricsResponse response;
  int expected = 0;
  while (stream->Read(&response)) EXPECT_EQ(response.points(0).step(), ++expected);
  EXPECT_EQ(expected, 500);
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(status.error_message(), "the shard ends early");
  EXPECT_EQ(alive_, 0);
}

TEST_F(Streams, AnOpenersErrorEndsTheCall) {
  stream_.open = [](Waker) { return absl::NotFoundError("no such job"); };
  StartServer();
  grpc::ClientContext context;
  auto stream = v1::MetricService::NewStub(channel_)->StreamMetrics(&context, {});
  v1::StreamMetricsResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(Streams, AClientThatDoesNotReadHoldsTheSourceBack) {
  constexpr int kEnd = 20000;  // 320 MB in all
  stream_.open = CountTo(kEnd);
  // Over a socket: flow control is the transport's.
  info_.runtime = stream_.runtime = session_.runtime = &runtime_;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&stream_);
  server_ = builder.BuildAndStart();
  channel_ =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  auto stream = v1::MetricService::NewStub(channel_)->StreamMetrics(&context, {});
  v1::StreamMetricsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  int before = -1;
  while (before != produced_) {  // until it stands still
    before = produced_;
    absl::SleepFor(absl::Milliseconds(200));
  }
  EXPECT_LT(produced_, kEnd / 2);
  context.TryCancel();
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

// Has nothing until it is woken; then one message, then the end.
class Sleeper final : public StreamSource<v1::StreamMetricsResponse> {
 public:
  explicit Sleeper(std::atomic<bool>& ready) : ready_(ready) {}
  absl::StatusOr<Pulled> Next(v1::StreamMetricsResponse& message) override {
    if (!ready_) return Pulled::kNothing;
    if (message.points_size() > 0) return Pulled::kEnd;
    message.add_points()->set_step(7);
    return Pulled::kMessage;
  }

 private:
  std::atomic<bool>& ready_;
};

TEST_F(Streams, AnIdleStreamGoesOnWhenItIsWoken) {
  std::atomic<bool> ready = false;
  Waker waker;
  absl::Notification opened;
  stream_.open = [&](Waker wake) {
    waker = wake;
    opened.Notify();
    return std::make_unique<Sleeper>(ready);
  };
  StartServer();
  grpc::ClientContext context;
  auto stream = v1::MetricService::NewStub(channel_)->StreamMetrics(&context, {});
  opened.WaitForNotification();
  waker();  // with nothing new: harmless
  ready = true;
  waker();
  v1::StreamMetricsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.points(0).step(), 7);
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
  waker();  // after the end: harmless
}

TEST_F(Streams, CancellingAnIdleStreamReleasesItsSource) {
  std::atomic<bool> never = false;
  std::weak_ptr<int> held;
  absl::Notification opened;
  class Holder final : public StreamSource<v1::StreamMetricsResponse> {
   public:
    explicit Holder(std::shared_ptr<int> token) : token_(std::move(token)) {}
    absl::StatusOr<Pulled> Next(v1::StreamMetricsResponse&) override { return Pulled::kNothing; }

   private:
    std::shared_ptr<int> token_;
  };
  stream_.open = [&](Waker) {
    auto token = std::make_shared<int>(1);
    held = token;
    opened.Notify();
    return std::make_unique<Holder>(token);
  };
  StartServer();
  grpc::ClientContext context;
  auto stream = v1::MetricService::NewStub(channel_)->StreamMetrics(&context, {});
  opened.WaitForNotification();
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  StopServer();
  EXPECT_TRUE(held.expired());
}

// Next blocks until it is cancelled.
class Blocker final : public StreamSource<v1::StreamMetricsResponse> {
 public:
  explicit Blocker(absl::Notification& entered) : entered_(entered) {}
  absl::StatusOr<Pulled> Next(v1::StreamMetricsResponse&) override {
    entered_.Notify();
    cancelled_.WaitForNotification();
    return absl::CancelledError("stopped");
  }
  void Cancel() override { cancelled_.Notify(); }

 private:
  absl::Notification& entered_;
  absl::Notification cancelled_;
};

TEST_F(Streams, CancellationReachesASourceThatBlocks) {
  absl::Notification entered;
  stream_.open = [&](Waker) { return std::make_unique<Blocker>(entered); };
  StartServer();
  grpc::ClientContext context;
  auto stream = v1::MetricService::NewStub(channel_)->StreamMetrics(&context, {});
  entered.WaitForNotification();
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(Streams, MayBeCancelledAtAnyMoment) {
  stream_.open = CountTo(1000);
  StartServer();
  auto stub = v1::MetricService::NewStub(channel_);
  for (int i = 0; i < 200; ++i) {
    produced_ = 0;
    grpc::ClientContext context;
    auto stream = stub->StreamMetrics(&context, {});
    v1::StreamMetricsResponse response;
    for (int read = 0; read < i % 7; ++read) stream->Read(&response);
    context.TryCancel();
    stream->Finish();
  }
  StopServer();
  EXPECT_EQ(alive_, 0);
}

}  // namespace
}  // namespace lorsa::server

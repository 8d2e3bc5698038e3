#include "server/rpc/server_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <vector>

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
    return [=, this](const Caller&, Waker) {
      return std::make_unique<Counter>(end, status, alive_, produced_);
    };
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
  stream_.open = [](const Caller&, Waker) { return absl::NotFoundError("no such job"); };
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
  StartServerOverASocket(streams_);
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
  stream_.open = [&](const Caller&, Waker wake) {
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
  stream_.open = [&](const Caller&, Waker) {
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

// Opening may wait for a disk, which must not hold up streams that are open.
TEST_F(Streams, PullOnAnExecutorOfTheirOwn) {
  absl::Notification open_others;
  Executor pulling(1);
  stream_.pulling = &pulling;
  std::atomic<int> opened = 0;
  stream_.open = [&](const Caller&, Waker) {
    if (opened++ > 0) open_others.WaitForNotification();
    return std::make_unique<Counter>(1000, absl::OkStatus(), alive_, produced_);
  };
  StartServer();
  auto stub = v1::MetricService::NewStub(channel_);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::StreamMetricsResponse>>> streams;
  const auto begin = [&] {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(stub->StreamMetrics(contexts.back().get(), {}));
  };
  begin();
  v1::StreamMetricsResponse response;
  ASSERT_TRUE(streams[0]->Read(&response));
  for (int i = 0; i < 4; ++i) begin();
  while (streams[0]->Read(&response)) {
  }
  EXPECT_TRUE(streams[0]->Finish().ok());
  EXPECT_EQ(produced_, 1000);
  open_others.Notify();
  for (size_t i = 1; i < streams.size(); ++i) {
    while (streams[i]->Read(&response)) {
    }
    EXPECT_TRUE(streams[i]->Finish().ok());
  }
  StopServer();
}

TEST_F(Streams, AnExceptionOfASourceEndsTheCallAlone) {
  stream_.open = [](const Caller&, Waker) -> OpenedSource<v1::StreamMetricsResponse> {
    throw std::bad_alloc();
  };
  StartServer();
  for (int i = 0; i < 2; ++i) {
    grpc::ClientContext context;
    auto stream = v1::MetricService::NewStub(channel_)->StreamMetrics(&context, {});
    v1::StreamMetricsResponse response;
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
}

// How many streams of clients, none of which is read, are served before one is refused.
int StreamsServed(v1::MetricService::Stub& stub, int tries, grpc::Status& refusal,
                  const std::string& token = "") {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::StreamMetricsResponse>>> streams;
  for (int i = 0; i < tries; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    if (!token.empty()) contexts.back()->AddMetadata("authorization", "Bearer " + token);
    auto stream = stub.StreamMetrics(contexts.back().get(), {});
    v1::StreamMetricsResponse response;
    if (!stream->Read(&response)) {
      refusal = stream->Finish();
      return i;
    }
    streams.push_back(std::move(stream));
  }
  return tries;
}

TEST_F(Streams, AreBoundedForClientsAndForEachWorkerApart) {
  OpenStreams streams("streams", {.bounds = {.in_all = 3, .per_client = 3, .per_worker = 2}});
  stream_.open = CountTo(1 << 20);
  StartServerOverASocket(streams);
  EXPECT_EQ(streams.Shortage(), "");
  const auto stub = v1::MetricService::NewStub(channel_);
  grpc::Status refusal;
  for (int i = 0; i < 2; ++i) {  // What ended gives its slots back.
    EXPECT_EQ(StreamsServed(*stub, 10, refusal), 3);
    EXPECT_EQ(refusal.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    ASSERT_TRUE(ComesTrue([&] { return alive_ == 0; }));
  }
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::StreamMetricsResponse>>> held;
  for (int i = 0; i < 3; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    held.push_back(stub->StreamMetrics(contexts.back().get(), {}));
    held.back()->WaitForInitialMetadata();
  }
  EXPECT_NE(streams.Shortage(), "");
  EXPECT_EQ(StreamsServed(*stub, 10, refusal, "good"), 2);
  for (auto& context : contexts) context->TryCancel();
  for (auto& stream : held) stream->Finish();
  StopServer();
}

TEST_F(Streams, AreEndedWhenTheirClientTakesNothing) {
  OpenStreams streams("streams", {.stall = absl::Milliseconds(200)});
  stream_.open = CountTo(20000);  // 320 MB: more than the transport takes
  StartServerOverASocket(streams);
  grpc::ClientContext context;
  auto stream = v1::MetricService::NewStub(channel_)->StreamMetrics(&context, {});
  v1::StreamMetricsResponse response;
  ASSERT_TRUE(stream->Read(&response));
  ASSERT_TRUE(ComesTrue([&] { return alive_ == 0; }));
  while (stream->Read(&response)) {
  }
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(status.error_message().find("idle for 200ms"), std::string::npos)
      << status.error_message();
  StopServer();
}

// A stream that has nothing to say waits for the server, not for its client.
TEST_F(Streams, WithoutNewsAreNotEnded) {
  OpenStreams streams("streams", {.stall = absl::Milliseconds(20)});
  std::atomic<bool> ready = false;
  Waker waker;
  absl::Notification opened;
  stream_.open = [&](const Caller&, Waker wake) {
    waker = wake;
    opened.Notify();
    return std::make_unique<Sleeper>(ready);
  };
  StartServerOverASocket(streams);
  grpc::ClientContext context;
  auto stream = v1::MetricService::NewStub(channel_)->StreamMetrics(&context, {});
  opened.WaitForNotification();
  absl::SleepFor(absl::Milliseconds(200));
  ready = true;
  waker();
  v1::StreamMetricsResponse response;
  EXPECT_TRUE(stream->Read(&response));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
  StopServer();
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

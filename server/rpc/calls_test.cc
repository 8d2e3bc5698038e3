// The reactor bases over a real gRPC server in this process. The services are the product's own,
// with handlers that each test brings.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "lorsa/v1/metric_service.grpc.pb.h"
#include "lorsa/v1/server_info_service.grpc.pb.h"
#include "lorsa/v1/worker_service.grpc.pb.h"
#include "server/rpc/bidi_stream.h"
#include "server/rpc/server_stream.h"
#include "server/rpc/unary_call.h"

namespace lorsa::server {
namespace {

constexpr char kUnary[] = "lorsa.v1.ServerInfoService.GetServerInfo";
constexpr char kStream[] = "lorsa.v1.MetricService.StreamMetrics";
constexpr char kBidi[] = "lorsa.v1.WorkerService.Session";

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
  SourceOpener<v1::StreamMetricsResponse> open;

  grpc::ServerWriteReactor<v1::StreamMetricsResponse>* StreamMetrics(
      grpc::CallbackServerContext* context, const v1::StreamMetricsRequest*) override {
    return ServeStream<v1::StreamMetricsResponse>(*runtime, kStream, context, open);
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
  CallRuntime runtime_{*executor_, *authorizer_};
  InfoService info_;
  StreamService stream_;
  SessionService session_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

std::string ReasonIn(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_TRUE(details.details_size() > 0 && details.details(0).UnpackTo(&info));
  return info.reason();
}

// --- Unary ---

TEST_F(Calls, UnaryRunsItsHandlerOnTheExecutor) {
  std::thread::id handler_thread;
  info_.handler = [&](const auto&, v1::ServerInfo& info) {
    handler_thread = std::this_thread::get_id();
    info.set_version("1.2.3");
    return absl::OkStatus();
  };
  StartServer();
  std::thread::id executor_threads[2];
  std::latch both(3);  // the two threads and this one
  for (auto& id : executor_threads) {
    executor_->Schedule([&both, &id] {
      id = std::this_thread::get_id();
      both.arrive_and_wait();
    });
  }
  both.arrive_and_wait();
  grpc::ClientContext context;
  v1::ServerInfo info;
  ASSERT_TRUE(v1::ServerInfoService::NewStub(channel_)->GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.version(), "1.2.3");
  EXPECT_THAT(executor_threads, testing::Contains(handler_thread));
}

TEST_F(Calls, UnaryErrorsArriveWithTheirDetails) {
  info_.handler = [](const auto&, auto&) {
    return WithReason(absl::AbortedError("the file changed: start again"), "FILE_CHANGED");
  };
  StartServer();
  grpc::ClientContext context;
  v1::ServerInfo info;
  const grpc::Status status =
      v1::ServerInfoService::NewStub(channel_)->GetServerInfo(&context, {}, &info);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "the file changed: start again");
  EXPECT_EQ(ReasonIn(status), "FILE_CHANGED");
}

TEST_F(Calls, AMethodWithoutARuleIsDeniedBeforeItsHandlerRuns) {
  authorizer_ = std::make_unique<TableAuthorizer>(absl::Span<const MethodRule>(), tokens_);
  CallRuntime closed{*executor_, *authorizer_};
  std::atomic<int> calls = 0;
  info_.handler = [&](const auto&, auto&) {
    ++calls;
    return absl::OkStatus();
  };
  stream_.open = [&](Waker) {
    ++calls;
    return absl::InternalError("opened");
  };
  session_.open = [&](const Caller&, auto) {
    ++calls;
    return absl::InternalError("opened");
  };
  StartServer();
  info_.runtime = stream_.runtime = session_.runtime = &closed;

  grpc::ClientContext unary_context, stream_context, bidi_context;
  v1::ServerInfo info;
  const grpc::Status status =
      v1::ServerInfoService::NewStub(channel_)->GetServerInfo(&unary_context, {}, &info);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReasonIn(status), "NO_RULE");
  auto stream = v1::MetricService::NewStub(channel_)->StreamMetrics(&stream_context, {});
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  auto session = v1::WorkerService::NewStub(channel_)->Session(&bidi_context);
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(calls, 0);
}

// --- Server streams ---

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

// --- Bidirectional streams ---

v1::ServerMessage Acknowledgement(int64_t number) {
  v1::ServerMessage message;
  message.set_metrics_acknowledged(number);
  return message;
}

// Acknowledges each batch; an outcome ends the session.
class Echo final : public BidiHandler<v1::WorkerMessage> {
 public:
  using Sender = std::shared_ptr<BidiSender<v1::ServerMessage>>;
  Echo(Sender sender, std::atomic<int>& closed) : sender_(std::move(sender)), closed_(closed) {}

  absl::Status OnMessage(const v1::WorkerMessage& message) override {
    if (message.has_outcome()) {
      sender_->Send(Acknowledgement(-1));
      sender_->End(absl::OkStatus());
    } else if (message.metrics().number() < 0) {
      return absl::InvalidArgumentError("negative");
    } else {
      sender_->Send(Acknowledgement(message.metrics().number()));
    }
    return absl::OkStatus();
  }
  void OnClose() override { ++closed_; }

 private:
  const Sender sender_;
  std::atomic<int>& closed_;
};

class Sessions : public Calls {
 protected:
  void SetUp() override {
    session_.open = [this](const Caller& caller, auto sender) {
      caller_ = caller;
      sender_ = sender;
      return std::make_unique<Echo>(sender, closed_);
    };
    StartServer();
    stub_ = v1::WorkerService::NewStub(channel_);
  }

  // With the token of attempt 3 of the job "demo".
  auto Connect(grpc::ClientContext& context) {
    context.AddMetadata("authorization", "Bearer good");
    return stub_->Session(&context);
  }

  static v1::WorkerMessage Batch(int64_t number) {
    v1::WorkerMessage message;
    message.mutable_metrics()->set_number(number);
    return message;
  }

  Caller caller_;
  std::shared_ptr<BidiSender<v1::ServerMessage>> sender_;
  std::atomic<int> closed_ = 0;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
};

TEST_F(Sessions, NeedTheTokenOfAnAttempt) {
  for (const char* header : {"", "Bearer bad", "good", "Bearer "}) {
    grpc::ClientContext context;
    if (*header != '\0') context.AddMetadata("authorization", header);
    auto session = stub_->Session(&context);
    v1::ServerMessage message;
    EXPECT_FALSE(session->Read(&message));
    EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED) << header;
  }
  EXPECT_EQ(sender_, nullptr);
}

TEST_F(Sessions, HandleMessagesInOrderAndCloseOnce) {
  grpc::ClientContext context;
  auto session = Connect(context);
  v1::ServerMessage answer;
  for (int i = 1; i <= 100; ++i) ASSERT_TRUE(session->Write(Batch(i)));
  for (int i = 1; i <= 100; ++i) {
    ASSERT_TRUE(session->Read(&answer));
    EXPECT_EQ(answer.metrics_acknowledged(), i);
  }
  ASSERT_TRUE(caller_.worker.has_value());
  EXPECT_EQ(caller_.worker->job_id, "demo");
  EXPECT_EQ(caller_.worker->attempt, 3);
  session->WritesDone();
  EXPECT_FALSE(session->Read(&answer));
  EXPECT_TRUE(session->Finish().ok());
  StopServer();
  EXPECT_EQ(closed_, 1);
  EXPECT_FALSE(sender_->Send(Acknowledgement(0)));  // after the end: harmless
  sender_->End(absl::OkStatus());
}

TEST_F(Sessions, EndAfterWhatWasQueued) {
  grpc::ClientContext context;
  auto session = Connect(context);
  v1::WorkerMessage outcome;
  outcome.mutable_outcome();
  ASSERT_TRUE(session->Write(outcome));
  v1::ServerMessage answer;
  ASSERT_TRUE(session->Read(&answer));
  EXPECT_EQ(answer.metrics_acknowledged(), -1);
  EXPECT_FALSE(session->Read(&answer));
  EXPECT_TRUE(session->Finish().ok());
  StopServer();
  EXPECT_EQ(closed_, 1);
}

TEST_F(Sessions, AHandlersErrorEndsTheStream) {
  grpc::ClientContext context;
  auto session = Connect(context);
  ASSERT_TRUE(session->Write(Batch(-5)));
  v1::ServerMessage answer;
  EXPECT_FALSE(session->Read(&answer));
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  StopServer();
  EXPECT_EQ(closed_, 1);
}

TEST_F(Sessions, TheServerMayEndAStreamOfASilentClient) {
  grpc::ClientContext context;
  auto session = Connect(context);
  v1::ServerMessage answer;
  ASSERT_TRUE(session->Write(Batch(1)));
  ASSERT_TRUE(session->Read(&answer));
  sender_->End(absl::UnavailableError("the server stops"));
  EXPECT_FALSE(session->Read(&answer));
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  StopServer();
  EXPECT_EQ(closed_, 1);
}

TEST_F(Sessions, AQueueThatTheClientLeavesUnreadCancelsTheStream) {
  grpc::ClientContext context;
  auto session = Connect(context);
  v1::ServerMessage answer;
  ASSERT_TRUE(session->Write(Batch(1)));
  ASSERT_TRUE(session->Read(&answer));
  v1::ServerMessage large;
  large.mutable_welcome()->add_checkpoint_folders(std::string(1 << 20, 'x'));
  int sent = 0;
  while (sender_->Send(large)) ++sent;
  EXPECT_GE(sent, BidiSender<v1::ServerMessage>::kMaxQueuedMessages);
  EXPECT_LE(sent, BidiSender<v1::ServerMessage>::kMaxQueuedMessages + 100);
  while (session->Read(&answer)) {
  }
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::CANCELLED);
  StopServer();
  EXPECT_EQ(closed_, 1);
}

TEST_F(Sessions, MayBeCancelledAtAnyMoment) {
  // Several at once, so this opener keeps nothing outside of its handler.
  std::atomic<int> opened = 0;
  session_.open = [&](const Caller&, auto sender) {
    ++opened;
    return std::make_unique<Echo>(sender, closed_);
  };
  for (int i = 0; i < 200; ++i) {
    grpc::ClientContext context;
    auto session = Connect(context);
    v1::ServerMessage answer;
    for (int n = 1; n <= i % 5; ++n) session->Write(Batch(n));
    for (int n = 1; n <= i % 3; ++n) {
      if (i % 5 >= n) session->Read(&answer);
    }
    context.TryCancel();
    session->Finish();
  }
  StopServer();
  EXPECT_EQ(closed_, opened);
}

}  // namespace
}  // namespace lorsa::server

#include "server/rpc/bidi_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include "server/rpc/calls_test_fixture.h"

namespace lorsa::server {
namespace {

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

// The stream stayed open for ever.
TEST_F(Sessions, AnExceptionAtTheCloseEndsTheStream) {
  struct Thrower final : BidiHandler<v1::WorkerMessage> {
    absl::Status OnMessage(const v1::WorkerMessage&) override { return absl::OkStatus(); }
    void OnClose() override { throw std::runtime_error("a fault"); }
  };
  session_.open = [](const Caller&, auto) { return std::make_unique<Thrower>(); };
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  auto session = Connect(context);
  session->WritesDone();
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::INTERNAL);
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

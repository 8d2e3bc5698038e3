#include "server/rpc/unary_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "server/rpc/calls_test_fixture.h"
#include "server/rpc/status_testing.h"

namespace lorsa::server {
namespace {

TEST_F(Calls, UnaryRunsItsHandlerOnTheExecutor) {
  std::thread::id handler_thread;
  info_.handler = [&](const auto&, v1::ServerInfo& info) {
    handler_thread = std::this_thread::get_id();
    info.set_version("1.2.3");
    return absl::OkStatus();
  };
  StartServer();
  // Both threads at once, so that each shows itself.
  std::thread::id executor_threads[2];
  absl::BlockingCounter both(2);
  absl::Notification release;
  for (auto& id : executor_threads) {
    executor_->Schedule([&both, &release, &id] {
      id = std::this_thread::get_id();
      both.DecrementCount();
      release.WaitForNotification();
    });
  }
  both.Wait();
  release.Notify();
  grpc::ClientContext context;
  v1::ServerInfo info;
  ASSERT_TRUE(v1::ServerInfoService::NewStub(channel_)->GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.version(), "1.2.3");
  StopServer();
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

}  // namespace
}  // namespace lorsa::server

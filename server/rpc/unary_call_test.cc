#include "server/rpc/unary_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error_details.h"
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

TEST_F(Calls, AMethodOfWorkersIsDeniedToOthersBeforeItsHandlerRuns) {
  std::atomic<int> calls = 0;
  info_.handler = [&](const auto&, auto&) {
    ++calls;
    return absl::OkStatus();
  };
  stream_.open = [&](const Caller&, Waker) {
    ++calls;
    return absl::InternalError("opened");
  };
  session_.open = [&](const Caller&, auto) {
    ++calls;
    return absl::InternalError("opened");
  };
  StartServer(Access::kWorker);

  grpc::ClientContext unary_context, stream_context, bidi_context;
  v1::ServerInfo info;
  const grpc::Status status =
      v1::ServerInfoService::NewStub(channel_)->GetServerInfo(&unary_context, {}, &info);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(ReasonIn(status), "WORKER_TOKEN_MISSING");
  auto stream = v1::MetricService::NewStub(channel_)->StreamMetrics(&stream_context, {});
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  auto session = v1::WorkerService::NewStub(channel_)->Session(&bidi_context);
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(calls, 0);
}

TEST_F(Calls, AnExceptionOfAHandlerEndsTheCallAlone) {
  std::function<void()> fail;
  info_.handler = [&](const auto&, auto&) -> absl::Status {
    fail();
    return absl::OkStatus();
  };
  StartServer();
  const auto call = [&] {
    grpc::ClientContext context;
    v1::ServerInfo info;
    return v1::ServerInfoService::NewStub(channel_)->GetServerInfo(&context, {}, &info);
  };
  fail = [] { throw std::bad_alloc(); };
  EXPECT_EQ(call().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  fail = [] {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  };
  EXPECT_EQ(call().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  fail = [] { throw std::logic_error("a fault"); };
  EXPECT_EQ(call().error_code(), grpc::StatusCode::INTERNAL);
  fail = [] {};
  EXPECT_TRUE(call().ok());
}

// Calls of a server whose threads are all held.
class BusyCalls : public Calls {
 protected:
  BusyCalls() {
    executor_ = std::make_unique<Executor>(1, ExecutorLimits{.calls = 1});
    info_.handler = [this](const auto&, auto&) {
      ++calls_;
      return absl::OkStatus();
    };
    StartServer();
    absl::Notification held;
    executor_->Schedule([this, &held] {
      held.Notify();
      release_.WaitForNotification();
    });
    held.WaitForNotification();
  }
  ~BusyCalls() override { StopServer(); }

  // A call that waits in the queue.
  struct Waiting {
    grpc::ClientContext context;
    v1::GetServerInfoRequest request;
    v1::ServerInfo info;
    grpc::Status status;
    absl::Notification done;
  };
  std::unique_ptr<Waiting> Begin(absl::Duration timeout = absl::InfiniteDuration()) {
    auto waiting = std::make_unique<Waiting>();
    if (timeout < absl::InfiniteDuration()) {
      waiting->context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    }
    stub_ = v1::ServerInfoService::NewStub(channel_);
    stub_->async()->GetServerInfo(&waiting->context, &waiting->request, &waiting->info,
                                  [waiting = waiting.get()](grpc::Status status) {
                                    waiting->status = std::move(status);
                                    waiting->done.Notify();
                                  });
    return waiting;
  }
  void AwaitQueued(size_t count) {
    while (executor_->queued() != count) absl::SleepFor(absl::Milliseconds(1));
  }

  absl::Notification release_;
  std::atomic<int> calls_ = 0;
  std::unique_ptr<v1::ServerInfoService::Stub> stub_;
};

TEST_F(BusyCalls, OneTooManyIsRefusedAtOnceWithAdviceWhenToRetry) {
  const auto waiting = Begin();
  AwaitQueued(1);
  const auto refused = Begin();
  refused->done.WaitForNotification();  // While every thread is held.
  EXPECT_EQ(refused->status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonIn(refused->status), "SERVER_BUSY");
  const auto& trailers = refused->context.GetServerTrailingMetadata();
  EXPECT_EQ(trailers.count("grpc-retry-pushback-ms"), 1u);
  grpc::ClientContext stream_context, bidi_context;
  EXPECT_EQ(v1::MetricService::NewStub(channel_)
                ->StreamMetrics(&stream_context, {})
                ->Finish()
                .error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(v1::WorkerService::NewStub(channel_)->Session(&bidi_context)->Finish().error_code(),
            grpc::StatusCode::UNAVAILABLE);
  release_.Notify();
  waiting->done.WaitForNotification();
  EXPECT_TRUE(waiting->status.ok());
  EXPECT_EQ(calls_, 1);
}

TEST_F(BusyCalls, ACallCancelledWhileItWaitsLeavesTheQueue) {
  const auto cancelled = Begin();
  AwaitQueued(1);
  cancelled->context.TryCancel();
  AwaitQueued(0);  // While every thread is held.
  const auto waiting = Begin();
  AwaitQueued(1);
  release_.Notify();
  waiting->done.WaitForNotification();
  cancelled->done.WaitForNotification();
  EXPECT_TRUE(waiting->status.ok());
  EXPECT_EQ(cancelled->status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(calls_, 1);
}

TEST_F(BusyCalls, ACallWhoseDeadlinePassesWhileItWaitsNeverRuns) {
  const auto late = Begin(absl::Milliseconds(50));
  late->done.WaitForNotification();
  EXPECT_EQ(late->status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  AwaitQueued(0);
  release_.Notify();
  StopServer();
  EXPECT_EQ(calls_, 0);
}

}  // namespace
}  // namespace lorsa::server

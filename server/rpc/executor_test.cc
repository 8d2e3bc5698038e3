#include "server/rpc/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/error_details.h"

namespace lorsa::server {
namespace {

TEST(Executor, OneThreadRunsTasksInOrder) {
  std::vector<int> order;
  {
    Executor executor(1);
    for (int i = 0; i < 100; ++i) executor.Schedule([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(Executor, RunsAsManyTasksAtOnceAsItHasThreads) {
  absl::Notification first, second;
  Executor executor(2);
  // Each waits for the other, so both must run at the same time.
  executor.Schedule([&] {
    first.Notify();
    second.WaitForNotification();
  });
  executor.Schedule([&] {
    second.Notify();
    first.WaitForNotification();
  });
}

TEST(Executor, DrainsAlsoWhatTasksScheduleWhileItStops) {
  std::atomic<int> ran = 0;
  std::function<void(Executor&, int)> chain = [&](Executor& executor, int left) {
    ++ran;
    if (left > 0) executor.Schedule([&, left] { chain(executor, left - 1); });
  };
  {
    Executor executor(3);
    executor.Schedule([&] { chain(executor, 999); });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(Executor, CountsTheTasksThatWait) {
  absl::Notification release, started;
  Executor executor(1);
  executor.Schedule([&] {
    started.Notify();
    release.WaitForNotification();
  });
  started.WaitForNotification();
  executor.Schedule([] {});
  executor.Schedule([] {});
  EXPECT_EQ(executor.queued(), 2u);
  release.Notify();
}

// An executor of one thread, which the first task holds until Release.
class HeldExecutor : public testing::Test {
 protected:
  explicit HeldExecutor(const ExecutorLimits& limits = {.calls = 2, .request_bytes = 100})
      : executor_(1, limits) {
    executor_.Schedule([this] {
      started_.Notify();
      release_.WaitForNotification();
    });
    started_.WaitForNotification();
  }
  ~HeldExecutor() override {
    if (!release_.HasBeenNotified()) release_.Notify();
  }

  absl::StatusOr<Executor::Ticket> Admit(const std::string& name, size_t bytes = 0) {
    return executor_.Admit([this, name] { Note(name); }, "caller", bytes);
  }
  void Note(const std::string& name) {
    absl::MutexLock lock(&mutex_);
    ran_.push_back(name);
  }
  // What ran, once `count` have.
  std::vector<std::string> Ran(size_t count) {
    if (!release_.HasBeenNotified()) release_.Notify();
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return ran_.size() >= count; };
    mutex_.Await(absl::Condition(&enough));
    return ran_;
  }

  absl::Notification started_, release_;
  absl::Mutex mutex_;
  std::vector<std::string> ran_ ABSL_GUARDED_BY(mutex_);
  Executor executor_;
};

TEST_F(HeldExecutor, RefusesACallBeyondItsLimitsBeforeItIsQueued) {
  EXPECT_TRUE(Admit("a").ok());
  EXPECT_TRUE(Admit("b").ok());
  const absl::Status status = Admit("c").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(ReasonOf(status), "SERVER_BUSY");
  EXPECT_GT(RetryDelayOf(status), absl::ZeroDuration());
  EXPECT_EQ(executor_.queued(), 2u);
  EXPECT_THAT(Ran(2), testing::ElementsAre("a", "b"));
}

TEST_F(HeldExecutor, BoundsTheBytesOfRequestsThatWait) {
  EXPECT_TRUE(Admit("a", 60).ok());
  EXPECT_TRUE(absl::IsUnavailable(Admit("b", 60).status()));
  EXPECT_TRUE(Admit("c", 40).ok());
}

TEST_F(HeldExecutor, AlwaysTakesStepsOfCallsThatHaveBegun) {
  for (int i = 0; i < 10; ++i) executor_.Schedule([this] { Note("step"); });
  EXPECT_THAT(Ran(10), testing::Each("step"));
}

TEST_F(HeldExecutor, AWithdrawnCallMakesRoomAndNeverRuns) {
  const auto ticket = Admit("a");
  ASSERT_TRUE(ticket.ok());
  EXPECT_TRUE(Admit("b").ok());
  EXPECT_TRUE(executor_.Withdraw(*ticket));
  EXPECT_FALSE(executor_.Withdraw(*ticket));
  EXPECT_TRUE(Admit("c").ok());
  EXPECT_THAT(Ran(2), testing::ElementsAre("b", "c"));
  EXPECT_EQ(executor_.queued(), 0u);
}

TEST_F(HeldExecutor, AnExceptionOfATaskEndsThatTaskAlone) {
  executor_.Schedule([] { throw std::bad_alloc(); });
  executor_.Schedule([] { throw std::runtime_error("a fault of a library"); });
  EXPECT_TRUE(Admit("after").ok());
  EXPECT_THAT(Ran(1), testing::ElementsAre("after"));
}

class CrowdedExecutor : public HeldExecutor {
 protected:
  CrowdedExecutor() : HeldExecutor(ExecutorLimits{}) {}
};

// A retry storm made each watcher wait for every call that was queued before.
TEST_F(CrowdedExecutor, AFloodOfCallsDelaysAWatcherByOneCallAtATime) {
  for (int client = 0; client < 64; ++client) {
    for (int call = 0; call < 20; ++call) {
      ASSERT_TRUE(
          executor_.Admit([this] { Note("call"); }, absl::StrCat("client", client), 0).ok());
    }
  }
  for (int event = 0; event < 3; ++event) {
    executor_.Schedule([this] { Note("event"); }, "watcher");
  }
  const std::vector<std::string> ran = Ran(64 * 20 + 3);
  EXPECT_LE(std::find(ran.begin(), ran.end(), "event") - ran.begin(), 1);
  EXPECT_EQ(std::count(ran.begin(), ran.begin() + 6, "event"), 3);
}

TEST_F(CrowdedExecutor, AClientThatFloodsDelaysOtherClientsByOneCallAtATime) {
  for (int call = 0; call < 1000; ++call) {
    ASSERT_TRUE(executor_.Admit([this] { Note("flood"); }, "greedy", 0).ok());
  }
  ASSERT_TRUE(executor_.Admit([this] { Note("other"); }, "other", 0).ok());
  const std::vector<std::string> ran = Ran(1001);
  EXPECT_LE(std::find(ran.begin(), ran.end(), "other") - ran.begin(), 1);
}

}  // namespace
}  // namespace lorsa::server

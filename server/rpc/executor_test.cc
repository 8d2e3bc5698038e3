#include "server/rpc/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/synchronization/notification.h"

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

}  // namespace
}  // namespace lorsa::server

#include "server/jobs/job_watch.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"

namespace lorsa::server {
namespace {

TEST(JobWatchHubTest, WakesThoseWhoWatchTheJobAndTheSignal) {
  JobWatchHub hub;
  int events = 0, progress = 0, other = 0;
  const auto a = hub.Subscribe("a", kJobEvent, [&] { ++events; });
  const auto b = hub.Subscribe("a", kJobProgress | kJobTick, [&] { ++progress; });
  const auto c = hub.Subscribe("b", kJobEvent, [&] { ++other; });
  hub.Notify("a", kJobEvent);
  hub.Notify("a", kJobTick);
  hub.Notify("a", kJobMetrics);
  hub.Notify("nobody", kJobEvent);
  EXPECT_EQ(events, 1);
  EXPECT_EQ(progress, 1);
  EXPECT_EQ(other, 0);
}

TEST(JobWatchHubTest, EndedSubscriptionIsNotWokenAndLeavesTheOthers) {
  JobWatchHub hub;
  int first = 0, second = 0;
  auto a = hub.Subscribe("a", kJobEvent, [&] { ++first; });
  const auto b = hub.Subscribe("a", kJobEvent, [&] { ++second; });
  a.reset();
  hub.Notify("a", kJobEvent);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
}

TEST(JobWatchHubTest, NoWakeUpRunsAfterTheSubscriptionHasEnded) {
  JobWatchHub hub;
  absl::Notification entered, go_on;
  bool late = false;
  const auto first = hub.Subscribe("a", kJobEvent, [&] {
    entered.Notify();
    go_on.WaitForNotification();
  });
  auto second = hub.Subscribe("a", kJobEvent, [&] { late = true; });
  std::thread notifier([&] { hub.Notify("a", kJobEvent); });
  entered.WaitForNotification();
  second.reset();  // The notifier has chosen whom to wake, and has not come to this one.
  go_on.Notify();
  notifier.join();
  EXPECT_FALSE(late);
}

}  // namespace
}  // namespace lorsa::server

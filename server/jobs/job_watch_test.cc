#include "server/jobs/job_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

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
  std::atomic<bool> stop = false;
  std::thread notifier([&] {
    for (; !stop; std::this_thread::yield()) hub.Notify("a", kJobEvent);
  });
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> wakes = 0;
    std::atomic<bool> ended = false;
    std::atomic<bool> late = false;
    auto subscription = hub.Subscribe("a", kJobEvent, [&] {
      if (ended) late = true;
      ++wakes;
    });
    while (wakes == 0) std::this_thread::yield();
    subscription.reset();
    ended = true;
    EXPECT_FALSE(late);
  }
  stop = true;
  notifier.join();
}

}  // namespace
}  // namespace lorsa::server

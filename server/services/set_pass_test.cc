#include "server/services/set_pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"

namespace lorsa::server {
namespace {

using Response = v1::VerifyActivationSetResponse;

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

TEST(PassProgress, ReportsEachPercentAndEachHalfSecond) {
  absl::Time now = kStart;
  PassProgress progress([] {}, [&] { return now; });
  EXPECT_TRUE(progress.Update(0, 1000));
  EXPECT_EQ(progress.Take()->bytes_total(), 1000);
  EXPECT_TRUE(progress.Update(5, 1000));  // the same percent, the same moment
  EXPECT_FALSE(progress.Take().has_value());
  EXPECT_TRUE(progress.Update(10, 1000));
  EXPECT_EQ(progress.Take()->bytes_done(), 10);
  now += absl::Milliseconds(500);
  EXPECT_TRUE(progress.Update(11, 1000));
  EXPECT_EQ(progress.Take()->bytes_done(), 11);
  EXPECT_TRUE(progress.Update(0, 0));  // an empty set
}

TEST(PassProgress, StopsThePassWhenTheClientIsGone) {
  PassProgress progress([] {}, [] { return kStart; });
  progress.Cancel();
  EXPECT_FALSE(progress.Update(1, 2));
}

// Runs a pass to its end and returns what a stream would send.
std::vector<Response> Pull(SetPass<Response>& pass, absl::Notification& woken,
                           absl::Status& outcome) {
  std::vector<Response> messages;
  Response message;
  while (true) {
    const absl::StatusOr<Pulled> pulled = pass.Next(message);
    outcome = pulled.status();
    if (!pulled.ok() || *pulled == Pulled::kEnd) return messages;
    if (*pulled == Pulled::kMessage) messages.push_back(message);
    if (*pulled == Pulled::kNothing) woken.WaitForNotification();
  }
}

TEST(SetPass, EndsWithTheOutcome) {
  Executor executor(1);
  absl::Notification done;
  // Woken once for the progress and once for the outcome.
  std::atomic<int> wakes = 0;
  SetPass<Response> pass(
      executor,
      [&] {
        if (++wakes == 2) done.Notify();
      },
      [] { return kStart; },
      [](const store::ProgressFunction& progress) -> absl::StatusOr<Response> {
        EXPECT_TRUE(progress(3, 4));
        Response response;
        response.mutable_report()->set_ok(true);
        return response;
      });
  absl::Status outcome;
  const auto messages = Pull(pass, done, outcome);
  EXPECT_TRUE(outcome.ok());
  ASSERT_FALSE(messages.empty());
  EXPECT_EQ(messages.front().progress().bytes_done(), 3);
  EXPECT_TRUE(messages.back().report().ok());
}

TEST(SetPass, HandsOnTheErrorOfThePass) {
  Executor executor(1);
  absl::Notification done;
  SetPass<Response> pass(
      executor, [&] { done.Notify(); }, [] { return kStart; },
      [](const store::ProgressFunction&) { return absl::DataLossError("shard-00001.h5"); });
  absl::Status outcome;
  EXPECT_THAT(Pull(pass, done, outcome), testing::IsEmpty());
  EXPECT_EQ(outcome, absl::DataLossError("shard-00001.h5"));
}

TEST(SetPass, AVanishedClientCancelsThePass) {
  absl::Notification started, vanished;
  std::atomic<bool> went_on = true;
  {
    Executor executor(1);
    auto pass = std::make_unique<SetPass<Response>>(
        executor, [] {}, [] { return kStart; },
        [&](const store::ProgressFunction& progress) -> absl::StatusOr<Response> {
          started.Notify();
          vanished.WaitForNotification();
          went_on = progress(1, 2);
          return absl::CancelledError("stopped");
        });
    started.WaitForNotification();
    pass.reset();
    vanished.Notify();
  }
  EXPECT_FALSE(went_on);
}

}  // namespace
}  // namespace lorsa::server

#include "base/monotonic_clock.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/shifted_wall_clock.h"

namespace lorsa {
namespace {

class TimedConditionTest : public ::testing::Test {
 protected:
  absl::Mutex mu_;
  TimedCondition changed_;
  bool done_ = false;
};

TEST_F(TimedConditionTest, ReturnsOnceTheConditionHolds) {
  std::thread other([this] {
    absl::MutexLock lock(&mu_);
    done_ = true;
    changed_.NotifyAll();
  });
  {
    absl::MutexLock lock(&mu_);
    EXPECT_TRUE(changed_.AwaitFor(mu_, absl::InfiniteDuration(), [this] { return done_; }));
  }
  other.join();
}

TEST_F(TimedConditionTest, ATimeoutIsNoTruth) {
  absl::MutexLock lock(&mu_);
  EXPECT_FALSE(changed_.AwaitFor(mu_, absl::Milliseconds(1), [] { return false; }));
  EXPECT_FALSE(changed_.AwaitFor(mu_, absl::ZeroDuration(), [] { return false; }));
}

// The scheduler stood still for as long as the wall clock had been set back.
TEST_F(TimedConditionTest, AClockThatIsSetBackProlongsNoWait) {
  const ShiftedWallClock clock(600);
  const absl::Duration began = MonotonicNow();
  absl::MutexLock lock(&mu_);
  EXPECT_FALSE(changed_.AwaitFor(mu_, absl::Milliseconds(10), [] { return false; }));
  EXPECT_LT(MonotonicNow() - began, absl::Seconds(60));
}

}  // namespace
}  // namespace lorsa

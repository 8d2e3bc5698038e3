#include "base/monotonic_clock.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <thread>

namespace {

std::atomic<int> g_shift_seconds = 0;

}  // namespace

// In place of the C library's, for Abseil too: the wall clock runs ahead of the kernel's, as the
// kernel's lies behind once somebody has set it back during a wait.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto real =
      reinterpret_cast<decltype(&clock_gettime)>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += g_shift_seconds;
  return result;
}

namespace lorsa {
namespace {

class TimedConditionTest : public ::testing::Test {
 protected:
  ~TimedConditionTest() override { g_shift_seconds = 0; }

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
  g_shift_seconds = 600;
  const absl::Duration began = MonotonicNow();
  absl::MutexLock lock(&mu_);
  EXPECT_FALSE(changed_.AwaitFor(mu_, absl::Milliseconds(10), [] { return false; }));
  EXPECT_LT(MonotonicNow() - began, absl::Seconds(60));
}

}  // namespace
}  // namespace lorsa

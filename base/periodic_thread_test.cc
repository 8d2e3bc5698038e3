#include "base/periodic_thread.h"

#include <gtest/gtest.h>

namespace lorsa {
namespace {

class PeriodicThreadTest : public ::testing::Test {
 protected:
  std::function<bool()> Counting(bool more = false) {
    return [this, more] {
      absl::MutexLock lock(&mu_);
      ++runs_;
      return more;
    };
  }
  void AwaitRuns(int count) {
    absl::MutexLock lock(&mu_);
    const auto reached = [this, count] { return runs_ >= count; };
    mu_.Await(absl::Condition(&reached));
  }
  int runs() {
    absl::MutexLock lock(&mu_);
    return runs_;
  }

  absl::Mutex mu_;
  int runs_ = 0;
};

TEST_F(PeriodicThreadTest, WorksAtOnceAndAgainAfterEachInterval) {
  PeriodicThread thread(absl::Milliseconds(1), Counting());
  thread.Start();
  AwaitRuns(3);
}

// A server whose start failed had begun to look after the jobs.
TEST_F(PeriodicThreadTest, DoesNothingBeforeStart) {
  PeriodicThread thread(absl::Milliseconds(1), Counting());
  thread.Poke();
  thread.Stop();
  EXPECT_EQ(runs(), 0);
}

TEST_F(PeriodicThreadTest, APokeEndsThePause) {
  PeriodicThread thread(absl::Hours(1), Counting());
  thread.Start();
  AwaitRuns(1);
  thread.Poke();
  AwaitRuns(2);
}

TEST_F(PeriodicThreadTest, MoreWorkIsDoneAtOnce) {
  PeriodicThread thread(absl::Hours(1), Counting(/*more=*/true));
  thread.Start();
  AwaitRuns(3);
  EXPECT_FALSE(thread.stopping());
  thread.Stop();
  EXPECT_TRUE(thread.stopping());
}

}  // namespace
}  // namespace lorsa

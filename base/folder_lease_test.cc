#include "base/folder_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/shifted_wall_clock.h"

namespace lorsa {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr LeaseTimes kQuick = {.beat = absl::Milliseconds(20), .patience = absl::Seconds(5)};
// For holders that are gone.
constexpr LeaseTimes kImpatient = {.beat = absl::Milliseconds(20),
                                   .patience = absl::Milliseconds(200)};

class FolderLeaseTest : public ::testing::Test {
 protected:
  FolderLeaseTest() {
    std::string folder = ::testing::TempDir() + "lease_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~FolderLeaseTest() override { std::filesystem::remove_all(folder_); }

  std::string Lock() const { return folder_ + "/lock"; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }
  template <typename Done>
  static bool Await(Done done) {
    for (int i = 0; i < 30'000 && !done(); ++i) absl::SleepFor(absl::Milliseconds(1));
    return done();
  }

  std::string folder_;
};

TEST_F(FolderLeaseTest, SecondHolderIsRefusedAndToldWhoHasIt) {
  const auto lease = FolderLease::Acquire(Lock(), kQuick);
  ASSERT_TRUE(lease.ok()) << lease.status();
  const auto second = FolderLease::Acquire(Lock(), kQuick).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  EXPECT_THAT(std::string(second.message()), HasSubstr(absl::StrCat("by process ", ::getpid())));
}

TEST_F(FolderLeaseTest, IsFreeAtOnceWhenLetGoAndNumbersAreNeverGivenTwice) {
  const LeaseTimes never_waits = {.patience = absl::ZeroDuration()};
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(FolderLease::Acquire(Lock(), never_waits).ok());
    EXPECT_THAT(Names(), ElementsAre(absl::StrCat("lock.owner-", i)));
    EXPECT_EQ(Read(absl::StrCat("lock.owner-", i)), "free\n");
  }
}

TEST_F(FolderLeaseTest, AHolderThatWasKilledIsWaitedForAndReplaced) {
  Write("lock.owner-7", "held 0000000123 by process 1 on elsewhere\n");
  Write("lock.owner-6", "free\n");
  const auto lease = FolderLease::Acquire(Lock(), kImpatient);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_THAT(Names(), ElementsAre("lock.owner-8"));
}

TEST_F(FolderLeaseTest, WaitsOnTheMonotonicClock) {
  Write("lock.owner-7", "held 0000000123 by process 1 on elsewhere\n");
  ShiftedWallClock clock(0);
  clock.StopAt(1'000'000'000);
  auto acquired = std::async(std::launch::async,
                             [this] { return FolderLease::Acquire(Lock(), kImpatient).status(); });
  EXPECT_EQ(acquired.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  clock.SetAhead(0);
  EXPECT_TRUE(acquired.get().ok());
}

TEST_F(FolderLeaseTest, WithoutPatienceAKilledHolderCountsAsLiving) {
  Write("lock.owner-1", "held 0000000123 by process 1 on elsewhere\n");
  const auto status = FolderLease::Acquire(Lock(), {.patience = absl::ZeroDuration()}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(FolderLeaseTest, OfManyAtOnceOneGetsIt) {
  Write("lock.owner-1", "held 0000000123 by process 1 on elsewhere\n");
  std::atomic<int> held = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const auto lease = FolderLease::Acquire(Lock(), kQuick);
        if (!lease.ok()) return;
        ++held;
        absl::SleepFor(absl::Seconds(1));  // many beats: all others see that it lives
      });
    }
  }
  EXPECT_EQ(held, 1);
}

TEST_F(FolderLeaseTest, AHolderThatStoodStillHearsThatItsLeaseWasTaken) {
  std::atomic<bool> lost = false;
  const auto lease = FolderLease::Acquire(Lock(), kQuick, [&](const std::string&) { lost = true; });
  ASSERT_TRUE(lease.ok());
  Write("lock.owner-2", "held 0000000001 by process 1 on elsewhere\n");
  EXPECT_TRUE(Await([&] { return lost.load(); }));
}

}  // namespace
}  // namespace lorsa

#include "base/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace lorsa {
namespace {

using ::testing::HasSubstr;

class FolderLockTest : public ::testing::Test {
 protected:
  FolderLockTest() {
    std::string folder = ::testing::TempDir() + "lock_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~FolderLockTest() override { std::filesystem::remove_all(folder_); }
  std::string Path() const { return folder_ + "/lock"; }
  std::string folder_;
};

TEST_F(FolderLockTest, SecondHolderIsRefusedAndToldWhoHasIt) {
  const auto lock = FolderLock::Acquire(Path());
  ASSERT_TRUE(lock.ok()) << lock.status();
  const auto second = FolderLock::Acquire(Path()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  EXPECT_THAT(std::string(second.message()),
              HasSubstr(absl::StrCat("in use by the process with pid ", ::getpid())));
}

TEST_F(FolderLockTest, IsFreeAgainWhenLetGo) {
  ASSERT_TRUE(FolderLock::Acquire(Path()).ok());
  EXPECT_TRUE(FolderLock::Acquire(Path()).ok());
}

TEST_F(FolderLockTest, IsNotInheritedByAProcessThatOutlivesTheHolder) {
  auto lock = FolderLock::Acquire(Path());
  ASSERT_TRUE(lock.ok());
  // The child lives until its standard input ends.
  std::FILE* child = ::popen("cat > /dev/null", "w");
  lock->reset();
  EXPECT_TRUE(FolderLock::Acquire(Path()).ok());
  ::pclose(child);
}

// What network and user-space file systems without locks answer.
class WithoutFlock : public FolderLockTest, public ::testing::WithParamInterface<int> {
 protected:
  static int Refuse(int, int) {
    errno = GetParam();
    return -1;
  }
  static constexpr LeaseTimes kTimes = {.beat = absl::Milliseconds(20),
                                        .patience = absl::Seconds(5)};
};

TEST_P(WithoutFlock, ALeaseStandsIn) {
  auto lock = FolderLock::Acquire(Path(), kTimes, Refuse);
  ASSERT_TRUE(lock.ok()) << lock.status();
  const auto second = FolderLock::Acquire(Path(), kTimes, Refuse).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  EXPECT_THAT(std::string(second.message()), HasSubstr(folder_));
  lock->reset();
  EXPECT_TRUE(FolderLock::Acquire(Path(), kTimes, Refuse).ok());
}

INSTANTIATE_TEST_SUITE_P(Errors, WithoutFlock, ::testing::Values(ENOSYS, ENOLCK, EOPNOTSUPP));

TEST_F(FolderLockTest, AnotherErrorOfFlockNamesTheFile) {
  const auto status = FolderLock::Acquire(Path(), {}, [](int, int) {
                        errno = EIO;
                        return -1;
                      }).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path()));
}

}  // namespace
}  // namespace lorsa

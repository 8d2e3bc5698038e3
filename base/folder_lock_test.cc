#include "base/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

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

}  // namespace
}  // namespace lorsa

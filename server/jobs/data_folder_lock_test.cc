#include "server/jobs/data_folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace lorsa::server {
namespace {

using ::testing::HasSubstr;

class DataFolderLockTest : public ::testing::Test {
 protected:
  DataFolderLockTest() {
    std::string folder = ::testing::TempDir() + "lock_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~DataFolderLockTest() override { std::filesystem::remove_all(folder_); }
  std::string Path() const { return folder_ + "/lock"; }
  std::string folder_;
};

TEST_F(DataFolderLockTest, SecondHolderIsRefusedAndToldWhoHasIt) {
  const auto lock = DataFolderLock::Acquire(Path());
  ASSERT_TRUE(lock.ok()) << lock.status();
  const auto second = DataFolderLock::Acquire(Path()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
  EXPECT_THAT(std::string(second.message()),
              HasSubstr(absl::StrCat("in use by the lorsad with pid ", ::getpid())));
}

TEST_F(DataFolderLockTest, IsFreeAgainWhenLetGo) {
  ASSERT_TRUE(DataFolderLock::Acquire(Path()).ok());
  EXPECT_TRUE(DataFolderLock::Acquire(Path()).ok());
}

TEST_F(DataFolderLockTest, IsNotInheritedByAProcessThatOutlivesTheHolder) {
  auto lock = DataFolderLock::Acquire(Path());
  ASSERT_TRUE(lock.ok());
  // The child lives until its standard input ends.
  std::FILE* child = ::popen("cat > /dev/null", "w");
  lock->reset();
  EXPECT_TRUE(DataFolderLock::Acquire(Path()).ok());
  ::pclose(child);
}

}  // namespace
}  // namespace lorsa::server

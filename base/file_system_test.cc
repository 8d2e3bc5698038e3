#include "base/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/failing_file_system.h"

namespace lorsa {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FileSystemTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(fs_.CreateDirectories(folder_).ok());
  }
  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }

  PosixFileSystem fs_;
  std::string folder_;
};

TEST_F(FileSystemTest, AnAtomicWriteReplacesTheWholeFileAndLeavesNoOther) {
  ASSERT_TRUE(WriteFileAtomically(fs_, Path("a"), "a longer first version").ok());
  ASSERT_TRUE(WriteFileAtomically(fs_, Path("a"), "second").ok());
  EXPECT_EQ(*ReadFile(fs_, Path("a"), 100), "second");
  EXPECT_THAT(*fs_.List(folder_), ElementsAre("a"));
}

class FailingWriteTest : public FileSystemTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/failing_" + GetParam();
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(fs_.CreateDirectories(folder_).ok());
  }
};

TEST_P(FailingWriteTest, AFailureAtAnyStepLeavesTheOldContentsAndNoTemporaryFile) {
  ASSERT_TRUE(WriteFileAtomically(fs_, Path("a"), "old").ok());
  FailingFileSystem failing(GetParam());
  EXPECT_TRUE(absl::IsResourceExhausted(WriteFileAtomically(failing, Path("a"), "new")));
  EXPECT_EQ(*ReadFile(fs_, Path("a"), 100), "old");
  EXPECT_THAT(*fs_.List(folder_), ElementsAre("a"));
}

INSTANTIATE_TEST_SUITE_P(Steps, FailingWriteTest,
                         testing::Values("create", "append", "sync", "close", "rename"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(FileSystemTest, AFailedFolderSyncIsReported) {
  FailingFileSystem failing("syncdir");
  EXPECT_FALSE(WriteFileAtomically(failing, Path("a"), "new").ok());
}

TEST_F(FileSystemTest, AppendingGoesOnAfterTheLastByte) {
  for (const char* part : {"abc", "de"}) {
    auto file = fs_.OpenForAppend(Path("a"));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(part).ok());
    ASSERT_TRUE((*file)->Close().ok());
  }
  EXPECT_EQ(*ReadFile(fs_, Path("a"), 100), "abcde");
}

TEST_F(FileSystemTest, AReadPastTheEndSaysWhere) {
  ASSERT_TRUE(WriteFileAtomically(fs_, Path("a"), "abc").ok());
  auto file = fs_.OpenForRead(Path("a"));
  ASSERT_TRUE(file.ok());
  char out[4];
  const absl::Status status = (*file)->ReadAt(1, absl::MakeSpan(out));
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path("a")));
}

TEST_F(FileSystemTest, ABoundedReadRefusesALongerFile) {
  ASSERT_TRUE(WriteFileAtomically(fs_, Path("a"), "abc").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(ReadFile(fs_, Path("a"), 2).status()));
}

TEST_F(FileSystemTest, SymbolicLinksFoldersAndFifosAreNotOpened) {
  ASSERT_TRUE(WriteFileAtomically(fs_, Path("a"), "abc").ok());
  ASSERT_EQ(symlink(Path("a").c_str(), Path("link").c_str()), 0);
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(fs_.OpenForRead(Path("link")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(fs_.OpenForRead(Path("fifo")).status()));
  EXPECT_FALSE(fs_.OpenForRead(folder_).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(fs_.OpenForAppend(Path("link")).status()));
  EXPECT_FALSE(fs_.OpenForAppend(Path("fifo")).ok());
}

TEST_F(FileSystemTest, ListIsSortedAndExistsSeesDanglingLinks) {
  ASSERT_EQ(symlink("nowhere", Path("b").c_str()), 0);
  ASSERT_TRUE(WriteFileAtomically(fs_, Path("a"), "").ok());
  EXPECT_THAT(*fs_.List(folder_), ElementsAre("a", "b"));
  EXPECT_TRUE(*fs_.Exists(Path("b")));
  EXPECT_FALSE(*fs_.Exists(Path("c")));
}

// A disk that had turned read-only after an error was told as PERMISSION_DENIED, which sends people
// to the wrong place, and ended runs that could have waited for its repair.
TEST(ErrnoStatusTest, ADiskThatTakesNothingIsExhaustedWhyever) {
  for (const int error : {ENOSPC, EROFS, EDQUOT}) {
    EXPECT_TRUE(absl::IsResourceExhausted(ErrnoStatus(error, "fsync", "/data/x"))) << error;
  }
  EXPECT_TRUE(absl::IsPermissionDenied(ErrnoStatus(EACCES, "open", "/data/x")));
}

}  // namespace
}  // namespace lorsa

#include "base/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

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

// A file system whose n-th operation of one kind fails, to walk through the steps of a write.
class FailingFileSystem final : public FileSystem {
 public:
  explicit FailingFileSystem(std::string failing) : failing_(std::move(failing)) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       mode_t mode) override {
    if (failing_ == "create") return Failure();
    auto file = posix_.Create(path, mode);
    if (!file.ok()) return file;
    return std::make_unique<FailingFile>(*this, *std::move(file));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path,
                                                              mode_t mode) override {
    return posix_.OpenForAppend(path, mode);
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    return posix_.OpenForRead(path);
  }
  absl::Status SyncFile(const std::string& path) override { return posix_.SyncFile(path); }
  absl::Status SyncDirectory(const std::string& path) override {
    return failing_ == "syncdir" ? Failure() : posix_.SyncDirectory(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return failing_ == "rename" ? Failure() : posix_.Rename(from, to);
  }
  absl::Status CreateDirectories(const std::string& path) override {
    return posix_.CreateDirectories(path);
  }
  absl::Status Remove(const std::string& path) override { return posix_.Remove(path); }
  absl::Status RemoveAll(const std::string& path) override { return posix_.RemoveAll(path); }
  absl::StatusOr<bool> Exists(const std::string& path) override { return posix_.Exists(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return posix_.List(path);
  }
  absl::StatusOr<uint64_t> FreeBytes(const std::string& path) override {
    return posix_.FreeBytes(path);
  }

 private:
  class FailingFile final : public WritableFile {
   public:
    FailingFile(FailingFileSystem& fs, std::unique_ptr<WritableFile> file)
        : fs_(fs), file_(std::move(file)) {}
    absl::Status Append(absl::string_view data) override {
      return fs_.failing_ == "append" ? Failure() : file_->Append(data);
    }
    absl::Status Sync() override { return fs_.failing_ == "sync" ? Failure() : file_->Sync(); }
    absl::Status Close() override { return fs_.failing_ == "close" ? Failure() : file_->Close(); }

   private:
    FailingFileSystem& fs_;
    std::unique_ptr<WritableFile> file_;
  };

  static absl::Status Failure() { return absl::ResourceExhaustedError("injected"); }

  std::string failing_;
  PosixFileSystem posix_;
};

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

}  // namespace
}  // namespace lorsa

#include "server/inspection/inspected_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/scratch_folder.h"

namespace lorsa::server {
namespace {

class InspectedFolderTest : public testing::Test {
 protected:
  InspectedFolderTest() {
    std::filesystem::create_directories(scratch_.Path("folder"));
    for (const char* name : {"a", "b"}) Write(Path(name), "as it was");
  }

  std::string Path(const std::string& name) const { return scratch_.Path("folder/" + name); }
  void Write(const std::string& path, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(fs_, path, text).ok());
  }
  ScratchFolder scratch_;
  PosixFileSystem fs_;
};

TEST_F(InspectedFolderTest, OpensWhatWasParsedAndNothingElse) {
  InspectedFolder folder(fs_, scratch_.Path("folder"));
  EXPECT_TRUE(absl::IsUnavailable(folder.OpenForRead(Path("a")).status()));
  folder.Parsed("a");
  EXPECT_TRUE(folder.OpenForRead(Path("a")).ok());
  EXPECT_TRUE(absl::IsUnavailable(folder.OpenForRead(Path("b")).status()));
  EXPECT_TRUE(absl::IsNotFound(folder.OpenForRead(Path("gone")).status()));
  Write(Path("new"), "came later");
  folder.Parsed("new");
  EXPECT_TRUE(absl::IsUnavailable(folder.OpenForRead(Path("new")).status()));
  EXPECT_TRUE(folder.IsUnchanged());
}

TEST_F(InspectedFolderTest, RefusesAFileThatWasReplaced) {
  InspectedFolder folder(fs_, scratch_.Path("folder"));
  folder.Parsed("a");
  Write(Path("a"), "as it was");  // the same contents in another file
  EXPECT_TRUE(absl::IsUnavailable(folder.OpenForRead(Path("a")).status()));
  EXPECT_FALSE(folder.IsUnchanged());
}

TEST_F(InspectedFolderTest, RefusesAFileThatWasExchangedAndPutBack) {
  InspectedFolder folder(fs_, scratch_.Path("folder"));
  folder.Parsed("a");
  std::filesystem::rename(Path("a"), Path("kept"));
  std::filesystem::rename(Path("kept"), Path("a"));
  EXPECT_TRUE(absl::IsUnavailable(folder.OpenForRead(Path("a")).status()));
}

TEST_F(InspectedFolderTest, OpensWhatWasWrittenThroughIt) {
  InspectedFolder folder(fs_, scratch_.Path("folder"));
  ASSERT_TRUE(WriteFileAtomically(folder, Path("sealed"), "by this process").ok());
  EXPECT_TRUE(folder.OpenForRead(Path("sealed")).ok());
  EXPECT_TRUE(absl::IsNotFound(folder.OpenForRead(Path("sealed.tmp")).status()));
  // HDF5 writes checksums.h5.tmp itself.
  EXPECT_TRUE(absl::IsNotFound(folder.Remove(Path("library.tmp"))));
  Write(Path("library.tmp"), "by a library");
  EXPECT_TRUE(folder.OpenForRead(Path("library.tmp")).ok());
  ASSERT_TRUE(folder.Rename(Path("library.tmp"), Path("library")).ok());
  EXPECT_TRUE(folder.OpenForRead(Path("library")).ok());
}

}  // namespace
}  // namespace lorsa::server

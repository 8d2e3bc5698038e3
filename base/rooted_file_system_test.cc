#include "base/rooted_file_system.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/scratch_folder.h"

namespace lorsa {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// root/inside/file, and secret/file beside the root.
class RootedFileSystemTest : public testing::Test {
 protected:
  RootedFileSystemTest() {
    std::filesystem::create_directories(Path("root/inside"));
    std::filesystem::create_directories(Path("secret"));
    std::ofstream(Path("root/inside/file")) << "inside";
    std::ofstream(Path("secret/file")) << "secret";
  }

  std::string Path(const std::string& name) const { return folder_.Path(name); }
  void Link(const std::string& target, const std::string& name) {
    ASSERT_EQ(::symlink(target.c_str(), Path(name).c_str()), 0);
  }
  absl::StatusOr<std::string> Read(const std::string& name) {
    return ReadFile(fs_, Path(name), 100);
  }

  ScratchFolder folder_;
  RootedFileSystem fs_{{Path("root")}};
};

TEST_F(RootedFileSystemTest, EveryOperationWorksBelowTheRoot) {
  EXPECT_EQ(Read("root/inside/file").value(), "inside");
  EXPECT_TRUE(fs_.CreateDirectories(Path("root/a/b/c")).ok());
  EXPECT_TRUE(fs_.CreateDirectories(Path("root/a/b/c")).ok());
  EXPECT_TRUE(WriteFileAtomically(fs_, Path("root/a/b/c/file"), "one").ok());
  EXPECT_TRUE(fs_.SyncFile(Path("root/a/b/c/file")).ok());
  EXPECT_TRUE((*fs_.OpenForAppend(Path("root/a/b/c/file")))->Append(" two").ok());
  EXPECT_TRUE(fs_.Rename(Path("root/a/b"), Path("root/moved")).ok());
  EXPECT_EQ(Read("root/moved/c/file").value(), "one two");
  EXPECT_THAT(fs_.List(Path("root")).value(), ElementsAre("a", "inside", "moved"));
  EXPECT_TRUE(fs_.Exists(Path("root/moved/c")).value());
  EXPECT_FALSE(fs_.Exists(Path("root/no/such/file")).value());
  EXPECT_TRUE(fs_.Remove(Path("root/moved/c/file")).ok());
  EXPECT_TRUE(fs_.RemoveAll(Path("root/moved")).ok());
  EXPECT_TRUE(fs_.RemoveAll(Path("root/moved/c")).ok());
  EXPECT_FALSE(std::filesystem::exists(Path("root/moved")));
  EXPECT_GT(fs_.FreeBytes(Path("root")).value(), 0u);
  EXPECT_TRUE(fs_.SyncDirectory(Path("root")).ok());
}

TEST_F(RootedFileSystemTest, WhatLiesOutsideIsRefused) {
  EXPECT_TRUE(absl::IsPermissionDenied(Read("secret/file").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(fs_.Create(Path("rootless")).status()));
  EXPECT_TRUE(absl::IsPermissionDenied(fs_.RemoveAll(Path("secret"))));
  EXPECT_TRUE(absl::IsPermissionDenied(fs_.Rename(Path("root/inside"), Path("secret/inside"))));
  EXPECT_TRUE(absl::IsInvalidArgument(Read("root/../secret/file").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Read("root/inside/./file").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(fs_.RemoveAll(Path("root/.."))));
  EXPECT_TRUE(std::filesystem::exists(Path("secret/file")));
}

TEST_F(RootedFileSystemTest, NoLinkIsFollowedWhateverIsDoneAndWhereverItStands) {
  Link("../secret", "root/out");            // to a folder outside
  Link("../secret/file", "root/out-file");  // to a file outside
  Link("inside", "root/in");                // even one that stays inside
  for (const char* name : {"root/out/file", "root/out-file", "root/in/file"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Read(name).status())) << Read(name).status();
    EXPECT_TRUE(absl::IsInvalidArgument(fs_.Create(Path(name)).status())) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(fs_.OpenForAppend(Path(name)).status())) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(fs_.SyncFile(Path(name)))) << name;
  }
  for (const char* name : {"root/out", "root/in"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(fs_.List(Path(name)).status())) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(fs_.SyncDirectory(Path(name)))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(fs_.CreateDirectories(Path(name)))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(fs_.CreateDirectories(Path(name) + "/new"))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(fs_.RemoveAll(Path(name) + "/file"))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(fs_.Exists(Path(name) + "/file").status())) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(fs_.Rename(Path("root/inside/file"), Path(name) + "/x")));
  }
  EXPECT_TRUE(fs_.RemoveAll(Path("root/out")).ok());  // the link, not what it leads to
  EXPECT_FALSE(fs_.Exists(Path("root/out")).value());
  std::string secret;
  std::ifstream(Path("secret/file")) >> secret;
  EXPECT_EQ(secret, "secret");
}

TEST_F(RootedFileSystemTest, ARootMayBeALinkAndMayLieInAnother) {
  std::filesystem::create_directories(Path("disk/sets"));
  std::ofstream(Path("disk/sets/file")) << "moved";
  Link("../disk/sets", "root/sets");
  EXPECT_TRUE(absl::IsInvalidArgument(Read("root/sets/file").status()));
  RootedFileSystem fs({Path("root"), Path("root/sets") + "/"});
  EXPECT_EQ(ReadFile(fs, Path("root/sets/file"), 100).value(), "moved");
  EXPECT_EQ(ReadFile(fs, Path("root/inside/file"), 100).value(), "inside");
}

TEST_F(RootedFileSystemTest, FifosFoldersAndDevicesAreNoFiles) {
  ASSERT_EQ(::mkfifo(Path("root/fifo").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(Read("root/fifo").status()));
  EXPECT_FALSE(fs_.Create(Path("root/fifo")).ok());  // and does not wait for a reader
  EXPECT_TRUE(absl::IsInvalidArgument(fs_.SyncFile(Path("root/fifo"))));
  EXPECT_FALSE(Read("root/inside").ok());
  RootedFileSystem devices({"/dev"});
  EXPECT_THAT(std::string(devices.OpenForRead("/dev/zero").status().message()),
              HasSubstr("not a regular file"));
}

// What the kernel does in one step, and what is done where it cannot, give the same answers.
TEST_F(RootedFileSystemTest, AWalkGivesTheAnswersOfTheKernel) {
  Link("../secret", "root/out");
  Link("inside", "root/in");
  const Descriptor root(::open(Path("root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const char* name : {"", "inside", "out", "in", "in/x", "inside/file", "inside/file/x", "no",
                           "..", "inside/.."}) {
    const auto kernel = OpenFolderBeneath(root.get(), name, name);
    const auto walk = WalkBeneath(root.get(), name, name);
    EXPECT_EQ(kernel.status().code(), walk.status().code()) << name << walk.status();
  }
  EXPECT_TRUE(WalkBeneath(root.get(), "inside", "").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(WalkBeneath(root.get(), "in/x", "").status()));
}

}  // namespace
}  // namespace lorsa

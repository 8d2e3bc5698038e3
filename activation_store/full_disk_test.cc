// Writing and sealing on a disk that really fills up: a small tmpfs (tests run as root). HDF5
// writes by itself, so only a real disk shows what it makes of the error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "activation_store/activation_set.h"
#include "activation_store/set_writer.h"
#include "activation_store/test_sets.h"

namespace lorsa::store {
namespace {

using testing::ElementsAre;

class FullDiskTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=512k"), 0)
        << "this test mounts a tmpfs and must run as root";
  }
  void TearDown() override { ::umount2(folder_.c_str(), MNT_DETACH); }

  // Leaves `pages` of 4 KiB free.
  void FillBut(uint64_t pages) {
    const uint64_t bytes = *fs_.FreeBytes(folder_);
    WriteBytes(filler_, std::string(bytes - pages * 4096, 'x'));
    ASSERT_EQ(*fs_.FreeBytes(folder_), pages * 4096);
  }

  PosixFileSystem fs_;
  const std::string folder_ = TestFolder(fs_);
  const std::string filler_ = JoinPath(folder_, "filler");
  const Manifest description_ =
      TestDescription(ElementType::kFloat32, 32, 64);  // 16 KiB a sequence
};

TEST_F(FullDiskTest, TheWriterSaysThatTheDiskIsFull) {
  auto writer = SetWriter::Create(fs_, JoinPath(folder_, "set"),
                                  {.description = description_, .sequences_per_shard = 10});
  ASSERT_TRUE(writer.ok()) << writer.status();
  absl::Status status;
  for (int64_t i = 0; i < 100 && status.ok(); ++i) {
    status = (*writer)->Append(TestSequence(description_, i));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::IsResourceExhausted((*writer)->Append(TestSequence(description_, 0))));
  EXPECT_TRUE(absl::IsResourceExhausted((*writer)->Seal(kTestNow).status()));
}

TEST_F(FullDiskTest, SealingLeavesTheShardsAndSucceedsOnceThereIsSpace) {
  WriteShardWithHdf5(JoinPath(folder_, "shard-00000.h5"), TestSequences(description_, 2),
                     description_, Layout::kContiguous);
  for (uint64_t pages : {0, 1}) {  // too little for checksums.h5, then for manifest.json
    FillBut(pages);
    const absl::Status full = SealSet(fs_, folder_, kTestNow, nullptr).status();
    EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
    EXPECT_FALSE(*fs_.Exists(JoinPath(folder_, "manifest.json")));
    ASSERT_EQ(fs_.Remove(filler_), absl::OkStatus());
  }
  EXPECT_EQ(SealSet(fs_, folder_, kTestNow, nullptr).status(), absl::OkStatus());
  EXPECT_THAT(*fs_.List(folder_), ElementsAre("checksums.h5", "manifest.json", "shard-00000.h5"));
}

}  // namespace
}  // namespace lorsa::store

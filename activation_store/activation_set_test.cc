#include "activation_store/activation_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <thread>

#include "activation_store/set_writer.h"
#include "activation_store/shard_reader.h"
#include "activation_store/test_sets.h"
#include "base/failing_file_system.h"

namespace lorsa::store {
namespace {

using testing::HasSubstr;

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class ActivationSetTest : public testing::Test {
 protected:
  PosixFileSystem fs_;
  std::string folder_ = TestFolder(fs_);
};

TEST_F(ActivationSetTest, ReadsBackWhatTheWriterWasGiven) {
  for (ElementType type : {ElementType::kBFloat16, ElementType::kFloat16, ElementType::kFloat32}) {
    const std::string folder = JoinPath(folder_, ElementTypeName(type));
    const Manifest written = WriteTestSet(fs_, folder, TestDescription(type, 6, 5), 11, 4);
    EXPECT_EQ(written.shards.size(), 3);
    const auto set = ActivationSet::Open(fs_, folder);
    ASSERT_TRUE(set.ok()) << set.status();
    EXPECT_EQ(FormatManifest((*set)->manifest()), FormatManifest(written));
    EXPECT_EQ((*set)->manifest_sha256().size(), 64);
    Sequence sequence;
    for (int64_t i = 10; i >= 0; --i) {
      ASSERT_EQ((*set)->Read(i, sequence), absl::OkStatus());
      EXPECT_EQ(sequence.index, i);
      EXPECT_TRUE(SameBytes(sequence, TestSequence(written, i))) << i;
    }
    EXPECT_TRUE(absl::IsOutOfRange((*set)->Read(11, sequence)));
    EXPECT_TRUE(absl::IsOutOfRange((*set)->Read(-1, sequence)));
  }
}

class LayoutTest : public testing::TestWithParam<std::tuple<Layout, ElementType>> {};

TEST_P(LayoutTest, EveryLayoutThatHdf5WritesGivesTheSameBytes) {
  const auto [layout, type] = GetParam();
  PosixFileSystem fs;
  const std::string folder = TestFolder(fs);
  const Manifest description = TestDescription(type, 13, 17);
  const auto sequences = TestSequences(description, 10);
  WriteShardWithHdf5(JoinPath(folder, "shard-00000.h5"), sequences, description, layout,
                     FormatDescription(description));
  const auto sealed = SealSet(fs, folder, kTestNow, nullptr);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_EQ(sealed->manifest.model, "test-model");
  const auto set = ActivationSet::Open(fs, folder);
  ASSERT_TRUE(set.ok()) << set.status();
  Sequence sequence;
  for (int64_t i = 0; i < 10; ++i) {
    ASSERT_EQ((*set)->Read(i, sequence), absl::OkStatus());
    EXPECT_TRUE(SameBytes(sequence, sequences[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LayoutTest,
    testing::Combine(
        testing::Values(Layout::kContiguous, Layout::kOneSequenceChunks, Layout::kOddChunks,
                        Layout::kDeflate, Layout::kAllFilters, Layout::kChecksummed),
        testing::Values(ElementType::kBFloat16, ElementType::kFloat16, ElementType::kFloat32)));

TEST_F(ActivationSetTest, ManyThreadsReadTheSameSet) {
  const Manifest written = WriteTestSet(fs_, JoinPath(folder_, "set"),
                                        TestDescription(ElementType::kFloat16, 8, 8), 40, 7);
  const auto set = ActivationSet::Open(fs_, JoinPath(folder_, "set"));
  ASSERT_TRUE(set.ok()) << set.status();
  std::vector<std::thread> threads;
  std::atomic<int> same = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Sequence sequence;
      for (int64_t i = 0; i < 40; ++i) {
        const int64_t index = (i * 7 + t) % 40;
        same +=
            (*set)->Read(index, sequence).ok() && SameBytes(sequence, TestSequence(written, index));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 160);
}

TEST_F(ActivationSetTest, MoreShardsThanFilesMayBeOpen) {
  const Manifest written = WriteTestSet(fs_, JoinPath(folder_, "set"),
                                        TestDescription(ElementType::kFloat16, 2, 2), 300, 1);
  ASSERT_EQ(written.shards.size(), 300);
  const size_t before = OpenDescriptors();
  const auto set = ActivationSet::Open(fs_, JoinPath(folder_, "set"));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_LE(OpenDescriptors(), before + kMaxOpenFilesPerSet + 1);  // 1: the checksums
  Sequence sequence;
  for (int round = 0; round < 2; ++round) {
    EXPECT_LE(OpenDescriptors(), before + kMaxOpenFilesPerSet + 1);
    for (int64_t i = 0; i < 300; ++i) {
      ASSERT_EQ((*set)->Read(i, sequence), absl::OkStatus());
      ASSERT_TRUE(SameBytes(sequence, TestSequence(written, i)));
    }
  }
}

TEST_F(ActivationSetTest, OpeningSaysWhatIsMissing) {
  EXPECT_TRUE(absl::IsNotFound(ActivationSet::Open(fs_, folder_ + "/none").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(ActivationSet::Open(fs_, folder_).status()));
  const std::string folder = JoinPath(folder_, "set");
  WriteTestSet(fs_, folder, TestDescription(ElementType::kFloat16, 4, 4), 6, 3);
  ASSERT_TRUE(fs_.Remove(JoinPath(folder, "shard-00001.h5")).ok());
  const absl::Status missing = ActivationSet::Open(fs_, folder).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(Message(missing), HasSubstr("shard-00001.h5"));
}

TEST_F(ActivationSetTest, ADamagedManifestIsNamed) {
  WriteBytes(JoinPath(folder_, "manifest.json"), "{\"format\": 3}");
  const absl::Status status = ActivationSet::Open(fs_, folder_).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(Message(status), HasSubstr("manifest.json: 'format'"));
}

// A producer gives more than the format bounds; the reader must say so before it allocates.
TEST_F(ActivationSetTest, ShardsThatDisagreeAreRefused) {
  const Manifest first = TestDescription(ElementType::kFloat16, 4, 4);
  WriteShardWithHdf5(JoinPath(folder_, "shard-00000.h5"), TestSequences(first, 2), first,
                     Layout::kContiguous);
  for (const Manifest& second :
       {TestDescription(ElementType::kFloat32, 4, 4), TestDescription(ElementType::kFloat16, 5, 4),
        TestDescription(ElementType::kBFloat16, 4, 4),
        TestDescription(ElementType::kFloat16, 4, 3)}) {
    WriteShardWithHdf5(JoinPath(folder_, "shard-00001.h5"), TestSequences(second, 2), second,
                       Layout::kContiguous);
    const absl::Status status = SealSet(fs_, folder_, kTestNow, nullptr).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(Message(status), HasSubstr("shard-00001.h5"));
    EXPECT_THAT(Message(status), HasSubstr("but the set"));
  }
}

}  // namespace
}  // namespace lorsa::store

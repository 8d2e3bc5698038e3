#include "activation_store/outlier_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "activation_store/activation_set.h"
#include "activation_store/set_writer.h"
#include "activation_store/test_sets.h"

namespace lorsa::store {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class OutlierTargetsTest : public testing::Test {
 protected:
  // Makes the elements of a position of mhsa_output `value`.
  void Fill(Sequence& sequence, int64_t position, float value) const {
    for (int64_t i = 0; i < description_.d_model; ++i) {
      std::memcpy(&sequence.mhsa_output[(position * description_.d_model + i) * sizeof(value)],
                  &value, sizeof(value));
    }
  }
  // Three shards, two sequences in each but the last.
  void WriteShards(const std::vector<Sequence>& sequences) {
    for (size_t first = 0; first < sequences.size(); first += 2) {
      const std::vector<Sequence> of_shard(
          sequences.begin() + static_cast<int64_t>(first),
          sequences.begin() + static_cast<int64_t>(std::min(first + 2, sequences.size())));
      WriteShardWithHdf5(JoinPath(folder_, ShardFile(static_cast<int64_t>(first / 2))), of_shard,
                         description_, Layout::kContiguous, FormatDescription(description_));
    }
  }

  PosixFileSystem fs_;
  const std::string folder_ = TestFolder(fs_);
  const Manifest description_ = TestDescription(ElementType::kFloat32, 16, 4);
};

TEST_F(OutlierTargetsTest, SealingAndVerifyingFindThem) {
  std::vector<Sequence> sequences = TestSequences(description_, 5);
  for (Sequence& sequence : sequences) {
    for (int64_t p = 0; p < description_.context; ++p) Fill(sequence, p, 1);  // norm 2
  }
  Fill(sequences[3], 7, 50);    // norm 100
  Fill(sequences[4], 2, 40);    // norm 80
  Fill(sequences[4], 0, 1000);  // masked
  Fill(sequences[1], 5, 5);     // norm 10, five times the mean
  WriteShards(sequences);
  const auto sealed = SealSet(fs_, folder_, kTestNow, nullptr);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  ASSERT_EQ(sealed->outliers.count, 2);
  EXPECT_EQ(sealed->outliers.largest[0].sequence, 3);
  EXPECT_EQ(sealed->outliers.largest[0].position, 7);
  EXPECT_DOUBLE_EQ(sealed->outliers.largest[0].norm, 100);
  EXPECT_EQ(sealed->outliers.largest[1].sequence, 4);
  EXPECT_EQ(sealed->outliers.largest[1].position, 2);
  const auto report = VerifySet(fs_, folder_, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->outliers.count, 2);
  EXPECT_EQ(report->outliers.largest[1].sequence, 4);
  // A sealed set that is sealed again is verified.
  EXPECT_EQ(SealSet(fs_, folder_, kTestNow, nullptr)->outliers.count, 2);
}

TEST_F(OutlierTargetsTest, ASetWithoutThemHasNone) {
  WriteShards(TestSequences(description_, 5));
  const auto sealed = SealSet(fs_, folder_, kTestNow, nullptr);
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_EQ(sealed->outliers.count, 0);
  EXPECT_EQ(OutliersText(sealed->outliers, 1), "");
}

TEST_F(OutlierTargetsTest, TheTextSaysHowManyAndWhere) {
  LargestNorms norms;
  norms.Add(17, {0, 3, 40, 2});
  EXPECT_EQ(OutliersText(norms.Above(2), 2),
            "1 target has more than 10 times the mean norm 2: sequence 17 position 2 (norm 40)");
  norms.Add(18, std::vector<double>(5000, 50));
  const OutlierTargets many = norms.Above(2);
  EXPECT_EQ(many.count, 1000);
  EXPECT_EQ(many.largest.size(), kOutliersNamed);
  EXPECT_EQ(many.largest[9].position, 9);
  EXPECT_THAT(OutliersText(many, 2), StartsWith("at least 1000 targets have"));
  EXPECT_THAT(OutliersText(many, 2), HasSubstr("(norm 50), …"));
}

}  // namespace
}  // namespace lorsa::store

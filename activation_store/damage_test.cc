// Sealed sets damaged byte by byte, and producers' mistakes in the contents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "activation_store/activation_set.h"
#include "activation_store/sequence_check.h"
#include "activation_store/test_sets.h"

namespace lorsa::store {
namespace {

using testing::HasSubstr;

// Reads every sequence: OK only if all come as they were written.
absl::Status ReadAll(FileSystem& fs, const std::string& folder, const Manifest& description) {
  auto set = ActivationSet::Open(fs, folder);
  if (!set.ok()) return set.status();
  Sequence sequence;
  for (int64_t i = 0; i < (*set)->manifest().sequences; ++i) {
    const absl::Status status = (*set)->Read(i, sequence);
    if (!status.ok()) return status;
    if (!SameBytes(sequence, TestSequence(description, i))) {
      return absl::InternalError("wrong bytes were handed out");
    }
  }
  return absl::OkStatus();
}

class DamageTest : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    WriteShardWithHdf5(shard_, TestSequences(description_, 5), description_, GetParam(),
                       FormatDescription(description_));
    const auto sealed = SealSet(fs_, folder_, kTestNow, nullptr);
    ASSERT_TRUE(sealed.ok()) << sealed.status();
  }

  PosixFileSystem fs_;
  const std::string folder_ = TestFolder(fs_);
  const std::string shard_ = JoinPath(folder_, "shard-00000.h5");
  const Manifest description_ = TestDescription(ElementType::kBFloat16, 9, 8);
};

TEST_P(DamageTest, AFlippedBitIsCaughtOrHarmlessAndVerifyAlwaysSeesIt) {
  const std::string good = ReadBytes(shard_);
  int refused = 0;
  for (size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] ^= static_cast<char>(1 << at % 8);
    WriteBytes(shard_, bad);
    const absl::Status status = ReadAll(fs_, folder_, description_);
    ASSERT_TRUE(status.ok() || absl::IsDataLoss(status)) << "byte " << at << ": " << status;
    if (!status.ok()) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("shard-00000.h5"));
      ++refused;
    }
    const auto report = VerifySet(fs_, folder_, nullptr);
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_FALSE(report->ok()) << "byte " << at;
    EXPECT_THAT(report->problems[0], HasSubstr("shard-00000.h5"));
  }
  EXPECT_GT(refused, 150);  // the data alone: 5·(2·9·8·2 + 9·5) / 7 = 237; deflated, fewer
}

TEST_P(DamageTest, ATruncatedShardIsRefusedWhateverIsLeft) {
  const std::string good = ReadBytes(shard_);
  ASSERT_TRUE(fs_.Remove(JoinPath(folder_, "manifest.json")).ok());
  for (size_t size = 0; size < good.size(); size += 61) {
    WriteBytes(shard_, good.substr(0, size));
    const absl::Status status = SealSet(fs_, folder_, kTestNow, nullptr).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << size << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("shard-00000.h5"));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, DamageTest,
                         testing::Values(Layout::kContiguous, Layout::kOneSequenceChunks,
                                         Layout::kAllFilters));

class SealedSetTest : public testing::Test {
 protected:
  void SetUp() override {
    manifest_ = WriteTestSet(fs_, folder_, TestDescription(ElementType::kFloat16, 6, 5), 7, 3);
  }
  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }
  std::vector<std::string> Problems() {
    const auto report = VerifySet(fs_, folder_, nullptr);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->problems : std::vector<std::string>();
  }

  PosixFileSystem fs_;
  const std::string folder_ = JoinPath(TestFolder(fs_), "set");
  Manifest manifest_;
};

TEST_F(SealedSetTest, AnUndamagedSetHasNoProblems) {
  const auto report = VerifySet(fs_, folder_, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->problems, testing::IsEmpty());
  EXPECT_EQ(report->sequences_checked, 7);
}

TEST_F(SealedSetTest, ATruncatedShardIsNamedWithItsSizes) {
  const std::string good = ReadBytes(Path("shard-00001.h5"));
  WriteBytes(Path("shard-00001.h5"), good.substr(0, good.size() - 1));
  const absl::Status status = ActivationSet::Open(fs_, folder_).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("shard-00001.h5: has"));
  EXPECT_THAT(Problems(), testing::ElementsAre(HasSubstr("shard-00001.h5: has")));
}

TEST_F(SealedSetTest, AMissingShardIsAProblemAndTheRestIsStillRead) {
  ASSERT_TRUE(fs_.Remove(Path("shard-00001.h5")).ok());
  const auto report = VerifySet(fs_, folder_, nullptr);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->problems, testing::ElementsAre(HasSubstr("shard-00001.h5")));
  EXPECT_EQ(report->sequences_checked, 4);
}

TEST_F(SealedSetTest, DamagedChecksumsAreAProblem) {
  const std::string good = ReadBytes(Path("checksums.h5"));
  int caught = 0;
  for (size_t at = 0; at < good.size(); at += 5) {
    std::string bad = good;
    bad[at] ^= 4;
    WriteBytes(Path("checksums.h5"), bad);
    caught += !Problems().empty();
    const absl::Status status = ReadAll(fs_, folder_, manifest_);
    ASSERT_TRUE(status.ok() || absl::IsDataLoss(status)) << "byte " << at << ": " << status;
  }
  EXPECT_EQ(caught, (good.size() + 4) / 5);
}

TEST_F(SealedSetTest, AManifestThatLiesIsAProblem) {
  const auto lie = [&](const std::function<void(Manifest&)>& change) {
    Manifest lying = manifest_;
    change(lying);
    WriteBytes(Path("manifest.json"), FormatManifest(lying));
    return Problems();
  };
  EXPECT_THAT(lie([](Manifest& m) { m.unmasked_tokens -= 1; }),
              testing::ElementsAre(HasSubstr("unmasked tokens")));
  EXPECT_THAT(lie([](Manifest& m) { m.mean_output_norm *= 1.001; }),
              testing::ElementsAre(HasSubstr("mean norms")));
  EXPECT_THAT(lie([](Manifest& m) { m.d_model += 1; }), testing::Each(HasSubstr("but the set")));
  EXPECT_THAT(lie([](Manifest& m) { m.shards[0].sha256[0] ^= 1; }),
              testing::ElementsAre(HasSubstr("shard-00000.h5: does not match the sha256")));
  EXPECT_THAT(lie([](Manifest& m) { m.attention_weights = m.checksums; }),
              testing::ElementsAre(HasSubstr("manifest.json: 'attention_weights.file'")));
  EXPECT_THAT(lie([](Manifest&) {}), testing::IsEmpty());
}

TEST_F(SealedSetTest, ProgressRisesToTheTotalAndCanStopThePass) {
  int64_t last = 0, total = 0;
  const auto watch = [&](int64_t done, int64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
    return true;
  };
  ASSERT_TRUE(VerifySet(fs_, folder_, watch).ok());
  EXPECT_GT(total, 0);
  EXPECT_EQ(last, total);
  const auto stop = [](int64_t, int64_t) { return false; };
  EXPECT_TRUE(absl::IsCancelled(VerifySet(fs_, folder_, stop).status()));
}

class SequenceCheckTest : public testing::TestWithParam<ElementType> {
 protected:
  const Manifest description_ = TestDescription(GetParam(), 8, 10);
  const ShardShape shape_ = {1, 8, 10, GetParam()};

  absl::Status Examine(const Sequence& sequence) {
    return ExamineSequence(sequence, shape_).status();
  }
  // The bits of an infinity.
  std::string Infinity() const {
    switch (GetParam()) {
      case ElementType::kBFloat16:
        return std::string("\x80\xff", 2);
      case ElementType::kFloat16:
        return std::string("\x00\x7c", 2);
      case ElementType::kFloat32:
        return std::string("\x00\x00\x80\x7f", 4);
    }
    return "";
  }
  // The bits of 1.5.
  std::string OneAndAHalf() const {
    switch (GetParam()) {
      case ElementType::kBFloat16:
        return std::string("\xc0\x3f", 2);
      case ElementType::kFloat16:
        return std::string("\x00\x3e", 2);
      case ElementType::kFloat32:
        return std::string("\x00\x00\xc0\x3f", 4);
    }
    return "";
  }
};

TEST_P(SequenceCheckTest, NaNAndInfAreNamedAtEveryPosition) {
  for (size_t position = 0; position < 8; ++position) {
    for (const bool nan : {false, true}) {
      Sequence sequence = TestSequence(description_, 2);
      std::string bad = Infinity();
      if (nan) bad[0] |= 1;
      sequence.mhsa_output.replace((position * 10 + 9) * bad.size(), bad.size(), bad);
      const absl::Status status = Examine(sequence);
      EXPECT_TRUE(absl::IsDataLoss(status));
      EXPECT_THAT(
          std::string(status.message()),
          HasSubstr("'mhsa_output' holds NaN or Inf at position " + std::to_string(position)));
    }
  }
}

TEST_P(SequenceCheckTest, NormsAreOfUnmaskedPositions) {
  Sequence sequence = TestSequence(description_, 2);  // masked: the first and the last position
  sequence.mhsa_input.clear();
  for (int i = 0; i < 80; ++i) sequence.mhsa_input += OneAndAHalf();
  const auto facts = ExamineSequence(sequence, shape_);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->unmasked_tokens, 6);
  EXPECT_DOUBLE_EQ(facts->input_norm_sum, 6 * 1.5 * std::sqrt(10.0));
}

INSTANTIATE_TEST_SUITE_P(Types, SequenceCheckTest,
                         testing::Values(ElementType::kBFloat16, ElementType::kFloat16,
                                         ElementType::kFloat32));

// Every finite fp16 number, against its definition.
TEST(HalfPrecisionTest, EveryFiniteNumberCountsAsWhatItIs) {
  const ShardShape shape = {1, 1, 1, ElementType::kFloat16};
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10);
    const double mantissa = bits & 0x3ff;
    const double value =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    Sequence sequence;
    const uint16_t stored = static_cast<uint16_t>(bits | (bits % 2 == 0 ? 0x8000 : 0));
    sequence.mhsa_input.assign(reinterpret_cast<const char*>(&stored), 2);
    sequence.mhsa_output.assign(2, '\0');
    sequence.tokens.assign(4, '\0');
    sequence.mask.assign(1, '\1');
    const auto facts = ExamineSequence(sequence, shape);
    ASSERT_TRUE(facts.ok());
    ASSERT_DOUBLE_EQ(facts->input_norm_sum, value) << bits;
  }
}

class MaskTest : public testing::Test {
 protected:
  // `mask` as digits; tokens 7 where masked, so that a masked run looks like padding.
  absl::Status Examine(const std::string& mask, bool same_token = true) {
    const int64_t context = static_cast<int64_t>(mask.size());
    const Manifest description = TestDescription(ElementType::kFloat16, context, 2);
    Sequence sequence = TestSequence(description, 0);
    for (size_t p = 0; p < mask.size(); ++p) {
      sequence.mask[p] = static_cast<char>(mask[p] - '0');
      const int32_t token = mask[p] == '0' && same_token ? 7 : static_cast<int32_t>(100 + p);
      std::memcpy(sequence.tokens.data() + 4 * p, &token, 4);
    }
    return ExamineSequence(sequence, {1, context, 2, ElementType::kFloat16}).status();
  }
};

TEST_F(MaskTest, RightPaddingSpecialTokensAndAllMaskedSequencesAreAccepted) {
  for (const char* mask : {"11111111", "01111111", "00011111", "01110000", "00000000", "01010101",
                           "00011000", "10000001"}) {
    EXPECT_EQ(Examine(mask), absl::OkStatus()) << mask;
  }
  EXPECT_EQ(Examine("00000111", /*same_token=*/false), absl::OkStatus());
}

TEST_F(MaskTest, LeftPaddingIsRefused) {
  for (const char* mask : {"00001111", "00000001", "00001000"}) {
    EXPECT_THAT(std::string(Examine(mask).message()), HasSubstr("padded on the left")) << mask;
  }
}

TEST_F(MaskTest, OtherValuesAreRefused) {
  EXPECT_THAT(std::string(Examine("11211111").message()),
              HasSubstr("'mask' is 2 at position 2 instead of 0 or 1"));
}

}  // namespace
}  // namespace lorsa::store

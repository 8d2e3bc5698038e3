#include "trainer/train/batch_reader.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_folder.h"
#include "trainer/train/testing/fake_host.h"

namespace lorsa::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class BatchReaderTest : public testing::Test {
 protected:
  BatchReader HeldOut() { return {config_, *host_.OpenHeldOut(), at::kCPU}; }

  SyntheticSet set_ = MakeSyntheticSet(131);  // 3 for training, 128 held out
  TrainConfig config_ = SyntheticConfig(set_);
  const ScratchFolder scratch_;
  FakeHost host_{set_, 0, scratch_.path()};
};

TEST_F(BatchReaderTest, ActivationsAreScaledAndMasksKept) {
  const auto loaded = HeldOut().Next(2);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->sequences, ElementsAre(3, 4));
  EXPECT_EQ(loaded->targets, 10);
  const at::Tensor targets = loaded->batch.y.narrow(1, 1, 5).flatten(0, 1).to(at::kDouble);
  EXPECT_NEAR(loaded->target_variance, (targets - targets.mean(0)).square().sum().item<double>(),
              1e-9);
  const at::Tensor raw = at::from_blob(set_.sequences[4].mhsa_output.data(), {6, 8}, at::kFloat);
  EXPECT_TRUE(loaded->batch.y[1].allclose(raw * config_.output_scale()));
  EXPECT_EQ(loaded->batch.mask[0].sum().item<int64_t>(), 5);
  EXPECT_FALSE(loaded->batch.mask[0][0].item<bool>());
}

TEST_F(BatchReaderTest, TheMeanNormBecomesTheSquareRootOfTheWidth) {
  const auto loaded = HeldOut().Next(128);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const double norm = loaded->batch.x.narrow(1, 1, 5).norm(2, {-1}).mean().item<double>();
  EXPECT_NEAR(norm, std::sqrt(8.0), 0.1);
}

TEST_F(BatchReaderTest, TheLastBatchIsShortAndThenThereIsNone) {
  BatchReader reader = HeldOut();
  EXPECT_EQ(reader.Next(100)->sequences.size(), 100);
  EXPECT_EQ(reader.Next(100)->sequences.size(), 28);
  EXPECT_TRUE(reader.Next(100)->empty());
}

TEST_F(BatchReaderTest, HalfPrecisionIsReadByItsType) {
  for (const auto& [type, torch] : {std::pair(store::ElementType::kBFloat16, at::kBFloat16),
                                    std::pair(store::ElementType::kFloat16, at::kHalf)}) {
    SyntheticSet half = MakeSyntheticSet(131);
    half.manifest.element_type = type;
    at::Tensor expected;
    for (store::Sequence& sequence : half.sequences) {
      for (std::string* bytes : {&sequence.mhsa_input, &sequence.mhsa_output}) {
        const at::Tensor t = at::from_blob(bytes->data(), {6, 8}, at::kFloat).to(torch);
        if (sequence.index == 3 && bytes == &sequence.mhsa_input) expected = t.to(at::kFloat);
        *bytes = std::string(static_cast<const char*>(t.const_data_ptr()), t.nbytes());
      }
    }
    const TrainConfig config = SyntheticConfig(half);
    FakeHost host(half, 0, scratch_.Path("half"));
    BatchReader reader(config, *host.OpenHeldOut(), at::kCPU);
    const auto loaded = reader.Next(1);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_TRUE(loaded->batch.x[0].allclose(expected * config.input_scale()));
  }
}

TEST_F(BatchReaderTest, DamageNamesTheSequence) {
  set_.sequences[4].mhsa_output.replace(8, 4, "\x00\x00\x80\x7f", 4);  // +Inf
  auto status = HeldOut().Next(2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Sequence 4 "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("mhsa_output"));
  set_.sequences[3].mhsa_input.pop_back();
  status = HeldOut().Next(2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Sequence 3 "));
}

}  // namespace
}  // namespace lorsa::trainer

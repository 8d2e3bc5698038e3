#include "trainer/train/head_resampling.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "base/scratch_folder.h"
#include "trainer/lorsa/reference_lorsa.h"
#include "trainer/train/initialization.h"
#include "trainer/train/testing/fake_host.h"

namespace lorsa::trainer {
namespace {

class HeadResamplingTest : public testing::Test {
 protected:
  void SetUp() override {
    config_.lorsa.n_ov_heads = 32;  // 8 for each QK head
    config_.lorsa.top_k = 4;
    config_.resample_firing_factor = 0.8;
    kernel_ = std::make_unique<ReferenceLorsa>(config_.lorsa);
    auto parameters =
        InitializeParameters(config_, host_, /*initial_checkpoint=*/"", *kernel_, at::kCPU);
    ASSERT_TRUE(parameters.ok()) << parameters.status();
    parameters_ = *parameters;
    auto sample = ReadTrainingSample(config_, host_, /*cursor=*/3, /*positions=*/120, at::kCPU);
    ASSERT_TRUE(sample.ok()) << sample.status();
    sample_ = *std::move(sample);
    // Heads that write nothing useful: their place is free.
    dead_.index_fill_(0, at::tensor({1, 2, 9, 30}, at::kLong), true);
    parameters_.b_v.masked_fill_(dead_, -1e6);
  }

  HeadRows Resample(uint64_t seed = 1) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    return ResampleHeads(config_, *kernel_, parameters_, sample_, dead_, generator);
  }
  LorsaParameters With(const HeadRows& rows) {
    LorsaParameters out = parameters_;
    out.w_v = out.w_v.index_copy(0, rows.heads, rows.w_v);
    out.b_v = out.b_v.index_copy(0, rows.heads, rows.b_v);
    out.w_o = out.w_o.index_copy(0, rows.heads, rows.w_o);
    return out;
  }
  // Over the sample's targets: [N, H].
  at::Tensor PreActivations(const LorsaParameters& parameters) {
    std::vector<at::Tensor> z;
    for (const LoadedBatch& loaded : sample_) {
      z.push_back(TargetRows(kernel_->Inspect(parameters, loaded.batch.x).z, loaded.batch.mask));
    }
    return at::cat(z);
  }

  SyntheticSet set_ = MakeSyntheticSet(160);
  TrainConfig config_ = SyntheticConfig(set_);
  const ScratchFolder scratch_;
  FakeHost host_{set_, config_.seed, scratch_.Path("host")};
  std::unique_ptr<ReferenceLorsa> kernel_;
  LorsaParameters parameters_;
  TrainingSample sample_;
  at::Tensor dead_ = at::zeros({32}, at::kBool);
};

TEST_F(HeadResamplingTest, GivesEachDeadHeadARowAndDependsOnTheSeedAlone) {
  const HeadRows rows = Resample(), again = Resample(), other = Resample(/*seed=*/2);
  EXPECT_TRUE(rows.heads.equal(at::tensor({1, 2, 9, 30}, at::kLong)));
  EXPECT_TRUE(rows.w_v.equal(again.w_v));
  EXPECT_TRUE(rows.b_v.equal(again.b_v));
  EXPECT_TRUE(rows.w_o.equal(again.w_o));
  EXPECT_FALSE(rows.w_o.equal(other.w_o));
  EXPECT_FALSE(rows.w_o[0].equal(rows.w_o[1]));
}

TEST_F(HeadResamplingTest, NewHeadsReadWithTheMeanNormAndMeanZero) {
  const HeadRows rows = Resample();
  const double live = parameters_.w_v.index_select(0, dead_.logical_not().nonzero().flatten())
                          .norm(2, {1})
                          .mean()
                          .item<double>();
  EXPECT_TRUE(at::allclose(rows.w_v.norm(2, {1}), at::full({4}, live), 1e-5));
  const at::Tensor z_Nn = PreActivations(With(rows)).index_select(1, rows.heads);
  EXPECT_LT(z_Nn.mean(0).abs().max().item<double>(), 1e-4 * z_Nn.abs().max().item<double>());
}

TEST_F(HeadResamplingTest, ANewHeadExceedsTheLeastKeptScoreAtTheWantedShareOfTargets) {
  const HeadRows rows = Resample();
  const int64_t wanted = 10;  // 0.8 · 4/32 of 100 targets
  at::Tensor least_N;
  {
    const at::Tensor scores_NH = PreActivations(parameters_) * parameters_.w_o.norm(2, {1});
    const at::Tensor top = std::get<0>(scores_NH.topk(config_.lorsa.top_k, 1));
    least_N = top.masked_fill(top <= 0, INFINITY).amin(1);
  }
  const at::Tensor scores_Nn =
      PreActivations(With(rows)).index_select(1, rows.heads) * rows.w_o.norm(2, {1});
  ASSERT_EQ(scores_Nn.size(0), 100);
  const at::Tensor above = (scores_Nn >= least_N.unsqueeze(1) * (1 - 1e-4)).sum(0);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(above[i].item<int64_t>(), wanted) << i;
}

// y = A·(x·w)·u of the last QK head alone, and nothing known yet: what is resampled there must
// write along u and read along w.
TEST_F(HeadResamplingTest, FindsTheOneDirectionThatIsMissing) {
  parameters_.b_v.fill_(-1e6);
  parameters_.b_d.zero_();
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{8});
  const at::Tensor read = parameters_.w_v[29], write = at::randn({8}, generator);
  for (LoadedBatch& loaded : sample_) {
    const Intermediates seen = kernel_->Inspect(parameters_, loaded.batch.x);
    const at::Tensor value_BS1 = loaded.batch.x.matmul(read).unsqueeze(-1);
    loaded.batch.y = seen.pattern.select(1, 3).matmul(value_BS1) * write;
  }
  dead_.fill_(true);
  const HeadRows rows = Resample();
  for (int64_t i = 24; i < 32; ++i) {
    EXPECT_GT(at::cosine_similarity(rows.w_o[i], write, 0).abs().item<double>(), 0.999) << i;
  }
  // And active where it helps.
  double agreement = 0;
  for (const LoadedBatch& loaded : sample_) {
    const at::Tensor y_hat = kernel_->Forward(With(rows), loaded.batch.x).reconstruction;
    agreement += (TargetRows(loaded.batch.y * y_hat, loaded.batch.mask)).sum().item<double>();
  }
  EXPECT_GT(agreement, 0);
}

TEST_F(HeadResamplingTest, WithADecoderNormTheRowsHaveItAndTheSameScores) {
  const HeadRows before = Resample();
  config_.decoder_norm = 2;
  const HeadRows rows = Resample();
  EXPECT_TRUE(at::allclose(rows.w_o.norm(2, {1}), at::full({4}, 2.), 1e-5));
  EXPECT_TRUE(at::allclose(rows.w_v * 2, before.w_v * before.w_o.norm(2, {1}, true), 1e-4, 1e-5));
}

TEST_F(HeadResamplingTest, SelectionByPlainActivationPutsTheFactorIntoTheReading) {
  config_.lorsa.select_by_decoder_norm = false;
  kernel_ = std::make_unique<ReferenceLorsa>(config_.lorsa);
  const HeadRows rows = Resample();
  const at::Tensor z_NH = PreActivations(parameters_);
  const at::Tensor top = std::get<0>(z_NH.topk(config_.lorsa.top_k, 1));
  const at::Tensor least_N = top.masked_fill(top <= 0, INFINITY).amin(1);
  const at::Tensor z_Nn = PreActivations(With(rows)).index_select(1, rows.heads);
  const at::Tensor above = (z_Nn >= least_N.unsqueeze(1) * (1 - 1e-4)).sum(0);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(above[i].item<int64_t>(), 10) << i;
}

}  // namespace
}  // namespace lorsa::trainer

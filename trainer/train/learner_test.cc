#include "trainer/train/learner.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>

#include "trainer/lorsa/reference_lorsa.h"
#include "trainer/train/dead_heads.h"
#include "trainer/train/decoder_norm.h"
#include "trainer/train/testing/synthetic_set.h"
#include "trainer/train/weight_average.h"

namespace lorsa::trainer {
namespace {

// The reference, remembering what each step was asked for.
class RecordingKernel final : public LorsaKernel {
 public:
  explicit RecordingKernel(const LorsaConfig& config) : inner_(config) {}
  const LorsaConfig& config() const override { return inner_.config(); }
  StepResult ForwardBackward(const LorsaParameters& parameters, const Batch& batch,
                             const StepOptions& options) override {
    asked.push_back(options);
    return inner_.ForwardBackward(parameters, batch, options);
  }
  ForwardResult Forward(const LorsaParameters& parameters, const at::Tensor& x) override {
    return inner_.Forward(parameters, x);
  }
  Intermediates Inspect(const LorsaParameters& parameters, const at::Tensor& x) override {
    return inner_.Inspect(parameters, x);
  }

  std::vector<StepOptions> asked;

 private:
  ReferenceLorsa inner_;
};

class LearnerTest : public testing::Test {
 protected:
  LearnerTest() : generator_(at::make_generator<at::CPUGeneratorImpl>(uint64_t{3})) {
    config_.warmup_fraction = config_.decay_fraction = 0;
    state_.parameters = Random();
    state_.adam = NewAdamState(config_.lorsa, at::kCPU);
    state_.tokens_since_fired = at::zeros({config_.lorsa.n_ov_heads}, at::kLong);
    loaded_.batch = {.x = at::randn({4, 6, 8}, generator_),
                     .y = at::randn({4, 6, 8}, generator_),
                     .mask = at::ones({4, 6}, at::kBool)};
    loaded_.sequences = {0, 1, 2, 3};
    loaded_.targets = 24;
  }

  LorsaParameters Random() {
    LorsaParameters out = ZeroParameters(config_.lorsa, at::kCPU);
    for (const ParameterSpec& spec : ParameterSpecs(config_.lorsa)) {
      (out.*spec.member).copy_(at::randn(spec.shape, generator_));
    }
    return out;
  }

  StepReport Step() {
    const auto report = Learner(config_, kernel_).Step(loaded_, state_);
    EXPECT_TRUE(report.ok()) << report.status();
    ++state_.counts.step;
    return report.value_or(StepReport{});
  }

  SyntheticSet set_ = MakeSyntheticSet(160);
  TrainConfig config_ = SyntheticConfig(set_);  // 20 steps of 24 tokens
  at::Generator generator_;
  RecordingKernel kernel_{config_.lorsa};
  TrainingState state_;
  LoadedBatch loaded_;
};

TEST_F(LearnerTest, FiguresOfTheBatchFollowFromTheKernelsSums) {
  loaded_.target_variance = 48;
  const StepResult step =
      ReferenceLorsa(config_.lorsa)
          .ForwardBackward(state_.parameters, loaded_.batch,
                           {.top_k = config_.lorsa.top_k, .loss_targets = loaded_.targets});
  const StepReport report = Step();
  EXPECT_DOUBLE_EQ(report.fvu, report.loss * 24 / 48);
  const double firings = step.firings.sum().item<double>();
  EXPECT_DOUBLE_EQ(report.l0, firings / 24);
  EXPECT_DOUBLE_EQ(report.activation_mean, step.activation_sum / firings);
  EXPECT_DOUBLE_EQ(report.activation_max, step.activation_max);
  // Active at 3 or more of 24 targets.
  EXPECT_DOUBLE_EQ(report.dense_fraction, (step.firings >= 3).sum().item<double>() / 16);
  EXPECT_GT(report.update_ratio, 0);
}

TEST_F(LearnerTest, HeadsDieAfterTheirShareOfTheRunsTokens) {
  config_.dead_after_fraction = 0.1;  // 48 of 480 tokens
  state_.parameters.b_v[5] = -1e6;    // never positive
  EXPECT_EQ(Step().dead_fraction, 0);
  EXPECT_EQ(state_.tokens_since_fired[5].item<int64_t>(), 24);
  Step();
  const at::Tensor dead = DeadHeads(config_, state_);
  EXPECT_TRUE(dead[5].item<bool>());
  EXPECT_NEAR(Step().dead_fraction, dead.sum().item<double>() / 16, 1e-12);
}

TEST_F(LearnerTest, AuxKIsAskedForOnceAHeadIsDead) {
  config_.dead_after_fraction = 1;
  config_.aux_coefficient = 0.25;
  config_.aux_top_k = 4;
  EXPECT_EQ(Step().aux_loss, 0);
  const at::Tensor heads = at::tensor({2, 9}, at::kLong);
  state_.tokens_since_fired.index_fill_(0, heads, 480);
  const at::Tensor before = state_.parameters.w_o.clone();
  EXPECT_GT(Step().aux_loss, 0);
  ASSERT_FALSE(kernel_.asked[0].aux.has_value());
  ASSERT_TRUE(kernel_.asked[1].aux.has_value());
  EXPECT_EQ(kernel_.asked[1].aux->top_k, 2);  // no more than are dead
  EXPECT_EQ(kernel_.asked[1].aux->coefficient, 0.25);
  EXPECT_TRUE(kernel_.asked[1].aux->dead.nonzero().flatten().equal(heads));
  EXPECT_GT((state_.parameters.w_o - before)[9].abs().max().item<double>(), 0);
}

TEST_F(LearnerTest, KWarmsUp) {
  config_.top_k_warmup_fraction = 0.1;  // 2 of 20 steps
  config_.initial_top_k = 13;
  const std::vector<int64_t> expected = {13, 8, 3, 3};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(Step().top_k, expected[i]);
    EXPECT_EQ(kernel_.asked[i].top_k, expected[i]);
  }
}

TEST_F(LearnerTest, TheAverageIsTheBiasCorrectedOneByItsDefinition) {
  config_.ema_fraction = 0.25;  // of 20 steps: β = exp(−1/5)
  state_.averaged = CloneParameters(config_.lorsa, state_.parameters);
  const double beta = std::exp(-1.0 / 5);
  at::Tensor sum = at::zeros({16, 8}, at::kDouble);
  double weights = 0;
  for (int i = 0; i < 7; ++i) {
    Step();
    sum = beta * sum + state_.parameters.w_v;
    weights = beta * weights + 1;
    EXPECT_TRUE(at::allclose(state_.averaged->w_v.to(at::kDouble), sum / weights, 1e-5, 1e-6)) << i;
  }
  EXPECT_FALSE(at::allclose(state_.averaged->w_v, state_.parameters.w_v));
}

TEST_F(LearnerTest, TheDecoderKeepsItsNorm) {
  config_.decoder_norm = 2.5;
  MoveDecoderNorm(config_.decoder_norm, state_.parameters);
  const at::Tensor before = state_.parameters.w_o.clone();
  Step();
  const at::Tensor norms = state_.parameters.w_o.norm(2, {1});
  EXPECT_TRUE(at::allclose(norms, at::full_like(norms, 2.5), 1e-5));
  EXPECT_FALSE(at::allclose(before, state_.parameters.w_o));
}

TEST_F(LearnerTest, MovingTheNormChangesNoReconstruction) {
  const at::Tensor before = kernel_.Forward(state_.parameters, loaded_.batch.x).reconstruction;
  state_.parameters.w_o[3].zero_();
  const at::Tensor without = kernel_.Forward(state_.parameters, loaded_.batch.x).reconstruction;
  MoveDecoderNorm(0.5, state_.parameters);
  const at::Tensor after = kernel_.Forward(state_.parameters, loaded_.batch.x).reconstruction;
  EXPECT_TRUE(at::allclose(after, without, 1e-4, 1e-4));
  EXPECT_NEAR(state_.parameters.w_o[0].norm().item<double>(), 0.5, 1e-6);
  EXPECT_EQ(state_.parameters.w_o[3].abs().max().item<double>(), 0);
}

TEST_F(LearnerTest, TheGradientLosesItsPartAlongTheRow) {
  LorsaParameters gradients = ZeroParameters(config_.lorsa, at::kCPU);
  state_.parameters.w_o[0] = at::tensor({3., 4., 0., 0., 0., 0., 0., 0.});
  gradients.w_o[0] = at::tensor({5., 0., 1., 0., 0., 0., 0., 0.});
  RemoveParallelPart(state_.parameters, gradients);
  // 5·0.6 = 3 along (0.6, 0.8).
  EXPECT_TRUE(at::allclose(gradients.w_o[0],
                           at::tensor({3.2, -2.4, 1., 0., 0., 0., 0., 0.}).to(at::kFloat)));
}

TEST_F(LearnerTest, AnUntrainedQkCircuitStays) {
  config_.qk_learning_rate_factor = 0;
  const at::Tensor before = state_.parameters.w_q.clone();
  Step();
  EXPECT_TRUE(before.equal(state_.parameters.w_q));
  EXPECT_EQ(state_.adam.mean.w_q.abs().max().item<double>(), 0);
  EXPECT_GT(state_.adam.mean.w_v.abs().max().item<double>(), 0);
}

TEST_F(LearnerTest, ReplacedHeadsBeginAgain) {
  state_.averaged = CloneParameters(config_.lorsa, state_.parameters);
  state_.adam.mean = Random();
  state_.adam.variance = Random();
  state_.tokens_since_fired.fill_(100);
  const at::Tensor heads = at::tensor({1, 4}, at::kLong);
  const HeadRows rows{.heads = heads,
                      .w_v = at::randn({2, 8}, generator_),
                      .b_v = at::randn({2}, generator_),
                      .w_o = at::randn({2, 8}, generator_)};
  at::Tensor live = at::zeros({16}, at::kBool);
  live[0] = live[2] = true;
  const TrainingState before = {
      .parameters = CloneParameters(config_.lorsa, state_.parameters),
      .adam = {.variance = CloneParameters(config_.lorsa, state_.adam.variance)}};
  ReplaceHeads(rows, live, state_);
  for (const LorsaParameters& weights : {state_.parameters, *state_.averaged}) {
    EXPECT_TRUE(weights.w_v.index_select(0, heads).equal(rows.w_v));
    EXPECT_TRUE(weights.b_v.index_select(0, heads).equal(rows.b_v));
    EXPECT_TRUE(weights.w_o.index_select(0, heads).equal(rows.w_o));
    EXPECT_TRUE(weights.w_o[3].equal(before.parameters.w_o[3]));
  }
  EXPECT_EQ(state_.adam.mean.w_v[4].abs().max().item<double>(), 0);
  EXPECT_GT(state_.adam.mean.w_v[3].abs().max().item<double>(), 0);
  const at::Tensor& old = before.adam.variance.w_o;
  EXPECT_TRUE(at::allclose(state_.adam.variance.w_o[1], (old[0] + old[2]) / 2));
  EXPECT_TRUE(state_.adam.variance.w_o[3].equal(old[3]));
  EXPECT_EQ(state_.tokens_since_fired[4].item<int64_t>(), 0);
  EXPECT_EQ(state_.tokens_since_fired[3].item<int64_t>(), 100);
}

}  // namespace
}  // namespace lorsa::trainer

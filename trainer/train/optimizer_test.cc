// Adam, the gradient's norm, and 40 steps of both on real activations against the golden file.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "trainer/lorsa/fast_lorsa.h"
#include "trainer/lorsa/fixtures.h"
#include "trainer/lorsa/reference_lorsa.h"
#include "trainer/train/adam.h"
#include "trainer/train/gradients.h"

namespace lorsa::trainer {
namespace {

LorsaConfig Tiny() {
  return {.d_model = 2, .n_ov_heads = 2, .n_qk_heads = 1, .d_qk = 2, .top_k = 1, .attn_scale = 1};
}

TEST(AdamTest, TwoStepsByHandWithARateForEachGroup) {
  const LorsaConfig config = Tiny();
  LorsaParameters parameters = ZeroParameters(config, at::kCPU);
  LorsaParameters gradients = ZeroParameters(config, at::kCPU);
  AdamState state = NewAdamState(config, at::kCPU);
  const AdamOptions options{.beta1 = 0.9, .beta2 = 0.99, .epsilon = 0.1};
  double m = 0, v = 0, expected = 0;
  for (const double g : {2.0, -1.0}) {
    gradients.b_v.fill_(g);
    gradients.b_q.fill_(g);
    gradients.w_v.fill_(g);
    gradients.w_o.fill_(g);
    ApplyAdam(config, options, {.qk = 0.05, .w_v = 0.25, .w_o = 0, .biases = 0.5},
              /*gradient_factor=*/1, gradients, parameters, state);
    m = 0.9 * m + 0.1 * g;
    v = 0.99 * v + 0.01 * g * g;
    const double m_hat = m / (1 - std::pow(0.9, state.steps));
    const double v_hat = v / (1 - std::pow(0.99, state.steps));
    expected -= 0.5 * m_hat / (std::sqrt(v_hat) + 0.1);
  }
  EXPECT_EQ(state.steps, 2);
  EXPECT_NEAR(parameters.b_v[0].item<double>(), expected, 1e-6);
  EXPECT_NEAR(parameters.b_q[0][0].item<double>(), expected * 0.1, 1e-7);
  EXPECT_NEAR(parameters.w_v[0][1].item<double>(), expected * 0.5, 1e-6);
  // A group that is not trained is not touched.
  EXPECT_EQ(parameters.w_o.abs().max().item<double>(), 0);
  EXPECT_EQ(state.variance.w_o.abs().max().item<double>(), 0);
}

TEST(AdamTest, TheGradientFactorActsAsOnTheGradientsAndTheNormsAreThoseOfWhatChanged) {
  const LorsaConfig config = Tiny();
  LorsaParameters gradients = ZeroParameters(config, at::kCPU);
  gradients.w_v.fill_(3);
  gradients.w_o.fill_(-8);
  const LearningRates rates{.qk = 0, .w_v = 0.1, .w_o = 0.2, .biases = 0};
  LorsaParameters once = ZeroParameters(config, at::kCPU), twice = once;
  once.w_v = at::full({2, 2}, 7.f);
  once.w_o = at::zeros({2, 2});
  twice.w_v = once.w_v.clone();
  twice.w_o = once.w_o.clone();
  AdamState state = NewAdamState(config, at::kCPU), other = NewAdamState(config, at::kCPU);
  const AdamReport report = ApplyAdam(config, {.epsilon = 1}, rates, 0.5, gradients, once, state);
  gradients.w_v.mul_(0.5);
  gradients.w_o.mul_(0.5);
  ApplyAdam(config, {.epsilon = 1}, rates, 1, gradients, twice, other);
  EXPECT_TRUE(once.w_v.equal(twice.w_v));
  EXPECT_TRUE(once.w_o.equal(twice.w_o));
  // The first step of Adam moves by rate · g / (|g| + epsilon): 0.1·1.5/2.5 and 0.2·4/5.
  EXPECT_NEAR(report.update_norm, std::sqrt(4 * (0.06 * 0.06 + 0.16 * 0.16)), 1e-6);
  EXPECT_NEAR(report.parameter_norm, std::sqrt(4 * (6.94 * 6.94 + 0.16 * 0.16)), 1e-5);
  once.w_o[0][0] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(std::isfinite(
      ApplyAdam(config, {.epsilon = 1}, rates, 1, gradients, once, state).parameter_norm));
}

TEST(GradientsTest, NormClippingAndNonFinite) {
  const LorsaConfig config = Tiny();
  LorsaParameters gradients = ZeroParameters(config, at::kCPU);
  gradients.b_v[0] = 3;
  gradients.w_o[1][1] = 4;
  EXPECT_DOUBLE_EQ(GlobalNorm(config, gradients), 5);
  EXPECT_EQ(ClippingFactor(5, /*max_norm=*/0), 1);
  EXPECT_EQ(ClippingFactor(5, /*max_norm=*/6), 1);
  EXPECT_DOUBLE_EQ(ClippingFactor(5, /*max_norm=*/1), 0.2);
  EXPECT_EQ(FirstNonFinite(config, gradients), "");
  gradients.w_v[0][1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(FirstNonFinite(config, gradients), "W_V");
  EXPECT_FALSE(std::isfinite(GlobalNorm(config, gradients)));
}

TEST(GradientsTest, LargeFiniteGradientsHaveAFiniteNorm) {
  const LorsaConfig config = Tiny();
  LorsaParameters gradients = ZeroParameters(config, at::kCPU);
  gradients.w_q.fill_(1e38);
  EXPECT_TRUE(std::isfinite(GlobalNorm(config, gradients)));
}

// Inputs and targets of step `i` of the trajectory, scaled; position 0 is never a target.
Batch TrajectoryBatch(const Fixture& fixture, int64_t i) {
  const auto rows = [&](const char* name, const char* scale) {
    const at::Tensor& all = fixture.At(name);
    const int64_t batch = fixture.description.at("batch");
    return all.narrow(0, batch * i % all.size(0), batch).to(at::kFloat) *
           fixture.description.at(scale).get<double>();
  };
  Batch batch{.x = rows("x", "scale_in"), .y = rows("y", "scale_out")};
  batch.mask = at::ones({batch.x.size(0), batch.x.size(1)}, at::kBool);
  batch.mask.select(1, 0).fill_(false);
  return batch;
}

struct Implementation {
  const char* name;
  std::unique_ptr<LorsaKernel> (*make)(const LorsaConfig& config);
  double loss_bound;      // relative, of each step's loss
  double movement_bound;  // ‖Δ‖ of each parameter after the last step, relative to its movement
};

const Implementation kImplementations[] = {
    {"Reference",
     [](const LorsaConfig& config) -> std::unique_ptr<LorsaKernel> {
       return std::make_unique<ReferenceLorsa>(config);
     },
     1e-4, 1e-3},
    {"FastFp32", [](const LorsaConfig& config) { return MakeFastLorsa(config, Precision::kFp32); },
     1e-4, 1e-3},
    {"FastBf16", [](const LorsaConfig& config) { return MakeFastLorsa(config, Precision::kBf16); },
     2e-3, 0.2},
};

class TrajectoryTest : public testing::TestWithParam<Implementation> {};

TEST_P(TrajectoryTest, FortyAdamStepsOnRealActivationsAgree) {
  const Fixture fixture = LoadFixture("trajectory");
  const LorsaConfig config = fixture.Config();
  const LorsaParameters initial = fixture.Parameters(config, "init.");
  LorsaParameters parameters = initial;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    parameters.*spec.member = (initial.*spec.member).clone();
  }
  AdamState state = NewAdamState(config, at::kCPU);
  const std::unique_ptr<LorsaKernel> model = GetParam().make(config);
  const nlohmann::json& adam = fixture.description.at("optimizer");
  const std::vector<double> losses = fixture.description.at("loss_per_step");
  for (size_t i = 0; i < losses.size(); ++i) {
    const Batch batch = TrajectoryBatch(fixture, i);
    const StepResult step = model->ForwardBackward(parameters, batch, WholeStep(config, batch));
    EXPECT_NEAR(step.loss, losses[i], GetParam().loss_bound * losses[i]) << "step " << i;
    const double warm = adam.at("warmup_steps").get<double>();
    const double rate = adam.at("lr").get<double>() * std::min(1.0, (i + 1) / warm);
    ApplyAdam(config,
              {.beta1 = adam.at("betas").at(0),
               .beta2 = adam.at("betas").at(1),
               .epsilon = adam.at("eps")},
              {.qk = rate, .w_v = rate, .w_o = rate, .biases = rate}, /*gradient_factor=*/1,
              step.gradients, parameters, state);
  }
  const LorsaParameters final = fixture.Parameters(config, "final.");
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    const at::Tensor& expected = final.*spec.member;
    const double error = (parameters.*spec.member - expected).norm().item<double>();
    const double movement = (expected - initial.*spec.member).norm().item<double>();
    EXPECT_LE(error, GetParam().movement_bound * movement) << spec.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, TrajectoryTest, testing::ValuesIn(kImplementations),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lorsa::trainer

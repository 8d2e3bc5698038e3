// Agreement with the golden files of the Lorsa's mathematics: every configuration, both selections,
// outputs, intermediate tensors and every gradient.
#include "trainer/lorsa/fixtures.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>

#include "trainer/lorsa/fast_lorsa.h"
#include "trainer/lorsa/reference_lorsa.h"

namespace lorsa::trainer {
namespace {

constexpr double kTolerance = 1e-5;  // max|Δ| relative to max|reference|, per tensor

void ExpectAgrees(const at::Tensor& actual, const Fixture& fixture, const std::string& tensor) {
  const double error = RelativeError(actual, fixture.At(tensor));
  EXPECT_LE(error, kTolerance) << tensor;
}

at::Tensor Dense(const Activations& activations, int64_t n_ov_heads, at::IntArrayRef batch_shape) {
  const int64_t tokens = activations.heads.size(0);
  const at::Tensor dense = at::zeros({tokens, n_ov_heads});
  dense.scatter_(1, activations.heads, activations.values);
  return dense.view({batch_shape[0], batch_shape[1], n_ov_heads});
}

// Without rope and QK norm the softmax does not see b_K, whose gradient is then exactly zero; the
// reference holds its rounding errors. They are held against b_Q's gradient, of the same kind.
void ExpectGradientAgrees(const at::Tensor& gradient, const Fixture& fixture,
                          const std::string& prefix, const std::string& parameter) {
  const LorsaConfig config = fixture.Config();
  if (parameter == "b_K" && !config.rope && !config.qk_norm) {
    const at::Tensor error = (gradient - fixture.At(prefix + "b_K")).abs().max();
    const at::Tensor scale = fixture.At(prefix + "b_Q").abs().max();
    EXPECT_LE((error / scale).item<double>(), kTolerance) << prefix << parameter;
    return;
  }
  ExpectAgrees(gradient, fixture, prefix + parameter);
}

// What computes in fp32.
struct Implementation {
  const char* name;
  std::unique_ptr<LorsaKernel> (*make)(const LorsaConfig& config);
};

const Implementation kImplementations[] = {
    {"Reference",
     [](const LorsaConfig& config) -> std::unique_ptr<LorsaKernel> {
       return std::make_unique<ReferenceLorsa>(config);
     }},
    {"Fast", [](const LorsaConfig& config) { return MakeFastLorsa(config, Precision::kFp32); }},
};

class FixturesTest : public testing::TestWithParam<std::tuple<std::string, Implementation>> {
 protected:
  std::unique_ptr<LorsaKernel> Make(const LorsaConfig& config) const {
    return std::get<1>(GetParam()).make(config);
  }
  Batch FixtureBatch() const { return {fixture_.At("x"), fixture_.At("y"), fixture_.At("mask")}; }

  Fixture fixture_ = LoadMathFixture(std::get<0>(GetParam()));
};

TEST_P(FixturesTest, IntermediateTensorsAgree) {
  const LorsaConfig config = fixture_.Config();
  ASSERT_TRUE(ValidateLorsaConfig(config).ok()) << ValidateLorsaConfig(config);
  const Intermediates actual =
      Make(config)->Inspect(fixture_.Parameters(config, "param."), fixture_.At("x"));
  ExpectAgrees(actual.q, fixture_, "q_rot");
  ExpectAgrees(actual.k, fixture_, "k_rot");
  ExpectAgrees(actual.v, fixture_, "v");
  ExpectAgrees(actual.pattern, fixture_, "pattern");
  ExpectAgrees(actual.z, fixture_, "hidden_pre");
}

TEST_P(FixturesTest, OutputsAndGradientsAgreeForBothSelections) {
  for (const Selection selection : {Selection::kRelu, Selection::kSigned}) {
    const std::string suffix = selection == Selection::kSigned ? "_signed" : "";
    LorsaConfig config = fixture_.Config();
    config.selection = selection;
    const LorsaParameters parameters = fixture_.Parameters(config, "param.");
    const at::Tensor& x = fixture_.At("x");
    const std::unique_ptr<LorsaKernel> model = Make(config);

    const ForwardResult forward = model->Forward(parameters, x);
    ExpectAgrees(forward.reconstruction, fixture_, "recon" + suffix);
    ExpectAgrees(Dense(forward.activations, config.n_ov_heads, x.sizes()), fixture_,
                 "acts" + suffix);

    const StepResult step =
        model->ForwardBackward(parameters, FixtureBatch(), WholeStep(config, FixtureBatch()));
    ExpectAgrees(at::full({1}, step.loss), fixture_, "loss" + suffix);
    for (const ParameterSpec& spec : ParameterSpecs(config)) {
      ExpectGradientAgrees(step.gradients.*spec.member, fixture_, "grad" + suffix + ".", spec.name);
    }
  }
}

TEST_P(FixturesTest, ActivityIsThatOfUnmaskedTargets) {
  const LorsaConfig config = fixture_.Config();
  const at::Tensor& mask = fixture_.At("mask");
  const StepResult step = Make(config)->ForwardBackward(
      fixture_.Parameters(config, "param."), FixtureBatch(), WholeStep(config, FixtureBatch()));
  const at::Tensor kept = fixture_.At("acts") * mask.unsqueeze(-1);
  EXPECT_EQ(step.targets, mask.sum().item<int64_t>());
  EXPECT_TRUE(step.firings.equal((kept != 0).flatten(0, 1).sum(0)));
  EXPECT_NEAR(step.activation_sum, kept.abs().sum().item<double>(), 1e-4 * step.activation_sum);
  EXPECT_NEAR(step.activation_max, kept.abs().max().item<double>(), 1e-5 * step.activation_max);
}

INSTANTIATE_TEST_SUITE_P(All, FixturesTest,
                         testing::Combine(testing::ValuesIn(MathFixtureNames()),
                                          testing::ValuesIn(kImplementations)),
                         [](const auto& info) {
                           return std::get<1>(info.param).name + std::get<0>(info.param);
                         });

// In bf16 a head near a token's threshold may change places with another, which moves single
// elements far: ‖Δ‖ relative to ‖reference‖ per tensor is what is bounded.
constexpr double kBf16LossBound = 0.01, kBf16OutputBound = 0.12, kBf16GradientBound = 0.15;

class Bf16FixturesTest : public testing::TestWithParam<std::string> {};

TEST_P(Bf16FixturesTest, OutputsAndGradientsAreNearForBothSelections) {
  const Fixture fixture = LoadMathFixture(GetParam());
  const auto error = [&](const at::Tensor& actual, const std::string& name) {
    const at::Tensor& expected = fixture.At(name);
    const double scale = expected.norm().item<double>();
    return (actual - expected).norm().item<double>() / (scale > 0 ? scale : 1);
  };
  for (const Selection selection : {Selection::kRelu, Selection::kSigned}) {
    const std::string suffix = selection == Selection::kSigned ? "_signed" : "";
    LorsaConfig config = fixture.Config();
    config.selection = selection;
    const LorsaParameters parameters = fixture.Parameters(config, "param.");
    const Batch batch{fixture.At("x"), fixture.At("y"), fixture.At("mask")};
    const auto model = MakeFastLorsa(config, Precision::kBf16);
    EXPECT_LE(error(model->Forward(parameters, batch.x).reconstruction, "recon" + suffix),
              kBf16OutputBound);
    const StepResult step = model->ForwardBackward(parameters, batch, WholeStep(config, batch));
    EXPECT_LE(error(at::full({1}, step.loss), "loss" + suffix), kBf16LossBound);
    for (const ParameterSpec& spec : ParameterSpecs(config)) {
      if (spec.name == "b_K" && !config.rope && !config.qk_norm) continue;  // zero but for rounding
      EXPECT_LE(error(step.gradients.*spec.member, "grad" + suffix + "." + spec.name),
                kBf16GradientBound)
          << spec.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Bf16FixturesTest, testing::ValuesIn(MathFixtureNames()),
                         [](const auto& info) { return info.param; });

TEST(FixtureFolderTest, ThereAreConfigurationsToCheck) { EXPECT_FALSE(MathFixtureNames().empty()); }

}  // namespace
}  // namespace lorsa::trainer

// The fast path against the reference path, over shapes that leave remainders everywhere.
#include "trainer/lorsa/fast_lorsa.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <ostream>
#include <string>

#include "trainer/kernels/tasks.h"
#include "trainer/lorsa/reference_lorsa.h"
#include "trainer/lorsa/step_cost.h"

namespace lorsa::trainer {
namespace {

// max|Δ| relative to max|reference|, per tensor. fp32 leaves rounding only. In bf16 a head near the
// threshold of a token may change places with another, so that the norm of Δ is what is bounded.
constexpr double kFp32Tolerance = 3e-5;

struct Shape {
  std::string name;
  int64_t d, H, G, D, K, B, S;
  Selection selection = Selection::kRelu;
  bool decoder_bias = true, decoder_norm = true, norm = false;
  int64_t rotary_dim = 0;  // 0: no rope
  bool adjacent = false;
  double masked = 0.1;  // of the tokens
  int64_t step_k = 0;   // 0: K
  int64_t aux_k = 0;    // 0: no AuxLoss
};

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

const Shape kShapes[] = {
    {.name = "Even",
     .d = 64,
     .H = 128,
     .G = 4,
     .D = 32,
     .K = 16,
     .B = 2,
     .S = 64,
     .rotary_dim = 32},
    {.name = "OddSizes",
     .d = 37,
     .H = 33,
     .G = 3,
     .D = 11,
     .K = 7,
     .B = 3,
     .S = 29,
     .rotary_dim = 6},
    {.name = "OneSequenceOneToken",
     .d = 16,
     .H = 8,
     .G = 2,
     .D = 8,
     .K = 3,
     .B = 1,
     .S = 1,
     .masked = 0},
    {.name = "OneToken", .d = 19, .H = 12, .G = 2, .D = 6, .K = 3, .B = 5, .S = 1, .masked = 0},
    {.name = "OneHeadKept",
     .d = 24,
     .H = 40,
     .G = 4,
     .D = 8,
     .K = 1,
     .B = 2,
     .S = 33,
     .rotary_dim = 8,
     .adjacent = true},
    {.name = "AllHeadsKept",
     .d = 24,
     .H = 40,
     .G = 4,
     .D = 8,
     .K = 40,
     .B = 2,
     .S = 33,
     .rotary_dim = 8},
    {.name = "AllHeadsKeptSigned",
     .d = 24,
     .H = 40,
     .G = 4,
     .D = 8,
     .K = 40,
     .B = 2,
     .S = 33,
     .selection = Selection::kSigned,
     .rotary_dim = 8},
    {.name = "OneOvHeadPerQkHead",
     .d = 48,
     .H = 24,
     .G = 24,
     .D = 16,
     .K = 5,
     .B = 2,
     .S = 40,
     .rotary_dim = 16},
    {.name = "OneQkHead",
     .d = 48,
     .H = 100,
     .G = 1,
     .D = 16,
     .K = 9,
     .B = 2,
     .S = 40,
     .rotary_dim = 16},
    {.name = "WideQk",
     .d = 40,
     .H = 20,
     .G = 2,
     .D = 70,
     .K = 5,
     .B = 2,
     .S = 35,
     .rotary_dim = 20},
    {.name = "QkNorm",
     .d = 40,
     .H = 48,
     .G = 3,
     .D = 18,
     .K = 6,
     .B = 2,
     .S = 35,
     .norm = true,
     .rotary_dim = 10},
    {.name = "QkNormAdjacent",
     .d = 40,
     .H = 48,
     .G = 3,
     .D = 18,
     .K = 6,
     .B = 2,
     .S = 35,
     .norm = true,
     .rotary_dim = 18,
     .adjacent = true},
    {.name = "Signed",
     .d = 40,
     .H = 70,
     .G = 5,
     .D = 12,
     .K = 11,
     .B = 2,
     .S = 70,
     .selection = Selection::kSigned,
     .rotary_dim = 12},
    {.name = "PlainScoresWithoutBias",
     .d = 40,
     .H = 70,
     .G = 5,
     .D = 12,
     .K = 11,
     .B = 2,
     .S = 70,
     .decoder_bias = false,
     .decoder_norm = false},
    {.name = "MostlyMasked",
     .d = 40,
     .H = 70,
     .G = 5,
     .D = 12,
     .K = 11,
     .B = 4,
     .S = 20,
     .masked = 0.95},
    {.name = "SeveralQueryBlocks",
     .d = 32,
     .H = 24,
     .G = 2,
     .D = 16,
     .K = 4,
     .B = 1,
     .S = 421,
     .rotary_dim = 16},
    {.name = "LongContext",
     .d = 16,
     .H = 16,
     .G = 1,
     .D = 16,
     .K = 2,
     .B = 1,
     .S = 2048,
     .rotary_dim = 16},
    {.name = "WarmupK",
     .d = 40,
     .H = 70,
     .G = 5,
     .D = 12,
     .K = 5,
     .B = 2,
     .S = 33,
     .rotary_dim = 12,
     .step_k = 70},
    {.name = "ManyHeads", .d = 20, .H = 3000, .G = 10, .D = 8, .K = 32, .B = 2, .S = 40},
    {.name = "Aux",
     .d = 40,
     .H = 70,
     .G = 5,
     .D = 12,
     .K = 11,
     .B = 2,
     .S = 33,
     .rotary_dim = 12,
     .aux_k = 9},
    {.name = "AuxSigned",
     .d = 40,
     .H = 70,
     .G = 5,
     .D = 12,
     .K = 11,
     .B = 2,
     .S = 33,
     .selection = Selection::kSigned,
     .rotary_dim = 12,
     .aux_k = 1},
};

LorsaConfig ConfigOf(const Shape& shape) {
  LorsaConfig config{.d_model = shape.d,
                     .n_ov_heads = shape.H,
                     .n_qk_heads = shape.G,
                     .d_qk = shape.D,
                     .top_k = shape.K,
                     .selection = shape.selection,
                     .select_by_decoder_norm = shape.decoder_norm,
                     .decoder_bias = shape.decoder_bias,
                     .attn_scale = 1.7 * std::sqrt(static_cast<double>(shape.D))};
  if (shape.rotary_dim > 0) {
    config.rope =
        store::Rope{.base = 1000, .rotary_dim = shape.rotary_dim, .adjacent_pairs = shape.adjacent};
  }
  if (shape.norm) config.qk_norm = store::QkNorm{.epsilon = 1e-5};
  return config;
}

struct Problem {
  explicit Problem(const Shape& shape) : config(ConfigOf(shape)) {
    at::Generator random = at::detail::createCPUGenerator(/*seed=*/17);
    const auto normal = [&](at::IntArrayRef sizes) { return at::randn(sizes, random); };
    for (const ParameterSpec& spec : ParameterSpecs(config)) {
      at::Tensor& tensor = parameters.*spec.member;
      tensor = normal(spec.shape);
      if (spec.shape.size() > 1) tensor = tensor / std::sqrt(static_cast<double>(shape.d));
      if (spec.name == "W_Q" || spec.name == "W_K") tensor = tensor * 1.5;
      if (spec.name == "W_O") tensor = tensor * at::rand({shape.H, 1}, random);
    }
    batch.x = normal({shape.B, shape.S, shape.d});
    batch.y = normal({shape.B, shape.S, shape.d});
    batch.mask = at::rand({shape.B, shape.S}, random) >= shape.masked;
    batch.mask[0][shape.S - 1].fill_(true);
    if (shape.B > 1) batch.mask[1].fill_(false);
    options = {.top_k = shape.step_k > 0 ? shape.step_k : shape.K,
               .loss_targets = batch.mask.sum().item<int64_t>() + 3};
    if (shape.aux_k > 0) {
      options.aux = AuxLoss{
          .dead = at::rand({shape.H}, random) < 0.4, .top_k = shape.aux_k, .coefficient = 0.7};
    }
  }

  LorsaConfig config;
  LorsaParameters parameters;
  Batch batch;
  StepOptions options;
};

double MaximumError(const at::Tensor& actual, const at::Tensor& expected) {
  const double error = (actual - expected).abs().max().item<double>();
  const double scale = expected.abs().max().item<double>();
  return scale > 1e-6 ? error / scale : error;
}

double NormError(const at::Tensor& actual, const at::Tensor& expected) {
  const double error = (actual - expected).norm().item<double>();
  const double scale = expected.norm().item<double>();
  return scale > 1e-6 ? error / scale : error;
}

// Without rope and norm the softmax does not see b_K: its gradient is rounding errors.
bool IsZeroInTheory(const LorsaConfig& config, const std::string& parameter) {
  return parameter == "b_K" && !config.rope && !config.qk_norm;
}

class FastLorsaTest : public testing::TestWithParam<Shape> {
 protected:
  StepResult Reference() {
    return ReferenceLorsa(problem_.config)
        .ForwardBackward(problem_.parameters, problem_.batch, problem_.options);
  }
  StepResult Step(LorsaKernel& kernel) {
    return kernel.ForwardBackward(problem_.parameters, problem_.batch, problem_.options);
  }

  void ExpectSameStep(const StepResult& actual, const StepResult& expected) {
    EXPECT_NEAR(actual.loss, expected.loss, kFp32Tolerance * expected.loss);
    EXPECT_NEAR(actual.aux_loss, expected.aux_loss, kFp32Tolerance * expected.aux_loss);
    EXPECT_EQ(actual.targets, expected.targets);
    EXPECT_TRUE(actual.firings.equal(expected.firings));
    EXPECT_NEAR(actual.activation_sum, expected.activation_sum, 1e-4 * expected.activation_sum);
    EXPECT_NEAR(actual.activation_max, expected.activation_max, 1e-5 * expected.activation_max);
    for (const ParameterSpec& spec : ParameterSpecs(problem_.config)) {
      const at::Tensor& gradient = actual.gradients.*spec.member;
      const at::Tensor& reference = expected.gradients.*spec.member;
      if (IsZeroInTheory(problem_.config, spec.name)) {
        EXPECT_LE((gradient - reference).abs().max().item<double>(),
                  kFp32Tolerance * expected.gradients.b_q.abs().max().item<double>());
        continue;
      }
      EXPECT_LE(MaximumError(gradient, reference), kFp32Tolerance) << spec.name;
    }
  }

  Problem problem_{GetParam()};
};

TEST_P(FastLorsaTest, AStepIsThatOfTheReferenceAtEveryInstructionLevel) {
  const StepResult expected = Reference();
  for (const kernels::Level level :
       {kernels::Level::kPlain, kernels::Level::kAvx2, kernels::Level::kAvx512}) {
    if (!kernels::IsSupported(level)) continue;
    SCOPED_TRACE(kernels::LevelName(level));
    ExpectSameStep(Step(*MakeFastLorsa(problem_.config, Precision::kFp32, level)), expected);
  }
}

TEST_P(FastLorsaTest, ForwardIsThatOfTheReference) {
  const auto dense = [&](const Activations& kept) {
    return at::zeros({kept.heads.size(0), problem_.config.n_ov_heads})
        .scatter(1, kept.heads, kept.values);
  };
  const ForwardResult expected =
      ReferenceLorsa(problem_.config).Forward(problem_.parameters, problem_.batch.x);
  const ForwardResult actual = MakeFastLorsa(problem_.config, Precision::kFp32)
                                   ->Forward(problem_.parameters, problem_.batch.x);
  EXPECT_LE(MaximumError(actual.reconstruction, expected.reconstruction), kFp32Tolerance);
  EXPECT_LE(MaximumError(dense(actual.activations), dense(expected.activations)), kFp32Tolerance);
  EXPECT_EQ(actual.activations.heads.sizes(), expected.activations.heads.sizes());
  EXPECT_TRUE((actual.activations.heads.diff() > 0).all().item<bool>());
}

TEST_P(FastLorsaTest, Bf16IsNearTheReference) {
  const StepResult expected = Reference();
  const StepResult actual = Step(*MakeFastLorsa(problem_.config, Precision::kBf16));
  EXPECT_NEAR(actual.loss, expected.loss, 0.01 * expected.loss);
  for (const ParameterSpec& spec : ParameterSpecs(problem_.config)) {
    if (IsZeroInTheory(problem_.config, spec.name)) continue;
    const double error = NormError(actual.gradients.*spec.member, expected.gradients.*spec.member);
    EXPECT_LE(error, 0.15) << spec.name;
  }
}

TEST_P(FastLorsaTest, ResultsDependNeitherOnThreadsNorOnWhatRanBefore) {
  const int threads = at::get_num_threads();
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const auto kernel = MakeFastLorsa(problem_.config, precision);
    at::set_num_threads(1);
    const StepResult first = Step(*kernel);
    at::set_num_threads(3);
    // Memory that holds another, larger batch before.
    const at::Tensor x = at::cat({problem_.batch.x, problem_.batch.x}).mul(3);
    kernel->Forward(problem_.parameters, x);
    const StepResult second = Step(*kernel);
    EXPECT_EQ(first.loss, second.loss);
    for (const ParameterSpec& spec : ParameterSpecs(problem_.config)) {
      EXPECT_TRUE((first.gradients.*spec.member).equal(second.gradients.*spec.member)) << spec.name;
    }
  }
  at::set_num_threads(threads);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FastLorsaTest, testing::ValuesIn(kShapes),
                         [](const auto& info) { return info.param.name; });

TEST(FastLorsaNanTest, ANanAnywhereReachesTheLossAndNothingRemainsOfIt) {
  Problem problem(kShapes[1]);
  const auto kernel = MakeFastLorsa(problem.config, Precision::kBf16);
  const auto loss = [&] {
    return kernel->ForwardBackward(problem.parameters, problem.batch, problem.options).loss;
  };
  const double good = loss();
  for (const ParameterSpec& spec : ParameterSpecs(problem.config)) {
    at::Tensor flat = (problem.parameters.*spec.member).view({-1});
    const float kept = flat[0].item<float>();
    flat[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(loss())) << spec.name;
    flat[0] = kept;
    EXPECT_EQ(loss(), good) << spec.name;
  }
}

// Resident memory of this process in bytes.
int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * 4096;
}

TEST(FastLorsaMemoryTest, AStepTakesWhatIsSaidBefore) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    Problem problem({.name = "",
                     .d = 256,
                     .H = 4096,
                     .G = 32,
                     .D = 32,
                     .K = 64,
                     .B = 8,
                     .S = 256,
                     .rotary_dim = 32});
    const int64_t predicted = StepMemoryBytes(
        problem.config, precision, {.sequences = 8, .context = 256}, kernels::TaskThreads());
    const int64_t before = ResidentBytes();
    const auto kernel = MakeFastLorsa(problem.config, precision);
    kernel->ForwardBackward(problem.parameters, problem.batch, problem.options);
    const int64_t taken = ResidentBytes() - before;
    EXPECT_GT(taken, 0.8 * predicted);
    EXPECT_LT(taken, 1.2 * predicted);
  }
}

}  // namespace
}  // namespace lorsa::trainer

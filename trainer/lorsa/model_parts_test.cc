// Selection, rope, tensor files and the wall against exceptions, each by itself.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>

#include "base/scratch_folder.h"
#include "trainer/lorsa/fixtures.h"
#include "trainer/lorsa/lorsa_parameters.h"
#include "trainer/lorsa/rope.h"
#include "trainer/lorsa/step_cost.h"
#include "trainer/lorsa/tensor_file.h"
#include "trainer/lorsa/top_k.h"
#include "trainer/lorsa/torch_guard.h"

namespace lorsa::trainer {
namespace {

LorsaConfig FourHeads(Selection selection, int64_t k) {
  return {.d_model = 1,
          .n_ov_heads = 4,
          .n_qk_heads = 1,
          .d_qk = 2,
          .top_k = k,
          .selection = selection,
          .attn_scale = 1};
}

// Activations of all four heads for one token.
at::Tensor Kept(const LorsaConfig& config, const at::Tensor& z, const at::Tensor& norms) {
  const Activations kept = KeepTopK(config, config.top_k, z.view({1, 4}), norms.view({4, 1}));
  return at::zeros({1, 4}).scatter_(1, kept.heads, kept.values).view({4});
}

TEST(TopKTest, ReluKeepsThePositiveOnesOnlyEvenIfFewer) {
  const at::Tensor z = at::tensor({-3.f, 1.f, 2.f, -1.f});
  EXPECT_TRUE(Kept(FourHeads(Selection::kRelu, 3), z, at::ones({4}))
                  .equal(at::tensor({0.f, 1.f, 2.f, 0.f})));
  EXPECT_TRUE(Kept(FourHeads(Selection::kRelu, 2), -z.abs(), at::ones({4})).equal(at::zeros({4})));
}

TEST(TopKTest, SignedKeepsTheLargestOfEitherSign) {
  const at::Tensor z = at::tensor({-3.f, 1.f, 2.f, -1.f});
  EXPECT_TRUE(Kept(FourHeads(Selection::kSigned, 2), z, at::ones({4}))
                  .equal(at::tensor({-3.f, 0.f, 2.f, 0.f})));
}

TEST(TopKTest, TheDecoderNormWeighsTheScoreNotTheValue) {
  const at::Tensor z = at::tensor({1.f, 2.f, 3.f, 4.f});
  const at::Tensor norms = at::tensor({9.f, 1.f, 1.f, 1.f});
  LorsaConfig config = FourHeads(Selection::kRelu, 1);
  EXPECT_TRUE(Kept(config, z, norms).equal(at::tensor({1.f, 0.f, 0.f, 0.f})));
  config.select_by_decoder_norm = false;
  EXPECT_TRUE(Kept(config, z, norms).equal(at::tensor({0.f, 0.f, 0.f, 4.f})));
}

TEST(TopKTest, TiesGoToTheLowerHead) {
  const LorsaConfig config = FourHeads(Selection::kRelu, 2);
  EXPECT_TRUE(Kept(config, at::tensor({1.f, 1.f, 2.f, 1.f}), at::ones({4}))
                  .equal(at::tensor({1.f, 0.f, 2.f, 0.f})));
  // Many heads, so that the selection takes another path than for a few.
  LorsaConfig wide = config;
  wide.n_ov_heads = 5000;
  wide.top_k = 64;
  const Activations kept = KeepTopK(wide, wide.top_k, at::ones({3, 5000}), at::ones({5000, 1}));
  EXPECT_TRUE(kept.heads.equal(at::arange(64).expand({3, 64})));
}

TEST(TopKTest, GradientsPassThroughKeptValuesOnly) {
  at::Tensor z = at::tensor({1.f, 5.f, -2.f, 4.f}).view({1, 4}).requires_grad_(true);
  at::Tensor w_o = at::ones({4, 1}).requires_grad_(true);
  (KeepTopK(FourHeads(Selection::kRelu, 2), 2, z, w_o).values * 3).sum().backward();
  EXPECT_TRUE(z.grad().equal(at::tensor({0.f, 3.f, 0.f, 3.f}).view({1, 4})));
  EXPECT_FALSE(w_o.grad().defined());
}

class RopeTest : public testing::TestWithParam<std::string> {};

TEST_P(RopeTest, TablesAreTheReferences) {
  const Fixture fixture = LoadMathFixture(GetParam());
  const LorsaConfig config = fixture.Config();
  if (!config.rope) return;  // Nothing to compare: the configuration has no rope.
  const at::Tensor& cos = fixture.At("rotary_cos");
  const RopeTables tables = MakeRopeTables(*config.rope, cos.size(0), at::kCPU);
  EXPECT_LE(RelativeError(tables.cos, cos), 1e-5);
  EXPECT_LE(RelativeError(tables.sin, fixture.At("rotary_sin")), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All, RopeTest, testing::ValuesIn(MathFixtureNames()),
                         [](const auto& info) { return info.param; });

TEST(RotationTest, KeepsLengthsAndDependsOnTheDistanceOnly) {
  const at::Tensor q = at::arange(6, at::kFloat).view({1, 1, 6}).expand({8, 1, 6});
  for (const bool adjacent : {false, true}) {
    const store::Rope rope{.base = 100, .rotary_dim = 4, .adjacent_pairs = adjacent};
    const at::Tensor turned =
        ApplyRope(q, MakeRopeTables(rope, 8, at::kCPU), adjacent).select(1, 0);
    EXPECT_TRUE(turned.norm(2, {1}).allclose(q.select(1, 0).norm(2, {1})));
    EXPECT_TRUE(turned.narrow(1, 4, 2).equal(q.select(1, 0).narrow(1, 4, 2)));
    EXPECT_FALSE(turned[1].allclose(turned[2]));
    EXPECT_TRUE(turned[1].dot(turned[3]).allclose(turned[5].dot(turned[7]), 1e-5));
  }
}

TEST(TensorFileTest, WhatIsWrittenIsReadInItsOwnType) {
  PosixFileSystem fs;
  const ScratchFolder scratch;
  const std::string path = scratch.Path("t.safetensors");
  const NamedTensors tensors = {{"a", at::arange(6, at::kFloat).view({2, 3}).t()},
                                {"b", at::ones({2}, at::kBFloat16)},
                                {"c", at::arange(3, at::kLong)},
                                {"d", at::tensor({1, 0}).to(at::kBool)}};
  ASSERT_TRUE(WriteTensorFile(fs, path, tensors).ok());
  const auto file = TensorFile::Open(fs, path);
  ASSERT_TRUE(file.ok()) << file.status();
  for (const auto& [name, tensor] : tensors) {
    const auto read = file->Read(name);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(read->equal(tensor)) << name;
  }
  EXPECT_TRUE(file->Read("a", at::kFloat, {3, 2}).ok());
  EXPECT_EQ(file->Read("a", at::kFloat, {2, 3}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(file->Read("a", at::kDouble, {3, 2}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(file->Read("z").status().code(), absl::StatusCode::kNotFound);
}

TEST(TorchGuardTest, ExceptionsBecomeStatuses) {
  const auto status = [](auto body) {
    return GuardTorch([&]() -> absl::Status {
      body();
      return absl::OkStatus();
    });
  };
  EXPECT_TRUE(status([] {}).ok());
  EXPECT_EQ(status([] { at::ones({2}).add(at::ones({3})); }).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status([] { throw std::bad_alloc(); }).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status([] { at::empty({int64_t{1} << 50}); }).code(),
            absl::StatusCode::kResourceExhausted);
  const absl::StatusOr<int> value = GuardTorch([]() -> absl::StatusOr<int> { return 3; });
  EXPECT_EQ(*value, 3);
}

TEST(ParameterCountTest, CountsWhatTheParametersHold) {
  LorsaConfig config{.d_model = 5, .n_ov_heads = 6, .n_qk_heads = 2, .d_qk = 4};
  const auto held = [&] {
    int64_t numbers = 0;
    for (const ParameterSpec& spec : ParameterSpecs(config)) {
      numbers += c10::multiply_integers(spec.shape);
    }
    return numbers;
  };
  EXPECT_EQ(ParameterCount(config), held());
  config.decoder_bias = false;
  config.qk_norm = {.epsilon = 1e-6};
  EXPECT_EQ(ParameterCount(config), held());
}

TEST(StepFlopsTest, CountsASmallStepByHand) {
  // T = 6: projections 4·6·3·(2·2·2 + 4) = 864, attention 2·6·1.5·2·(4·2 + 2) = 360,
  // sparse 6·6·2·3 + 4·6·2·1.5 = 288.
  const LorsaConfig config{.d_model = 3, .n_ov_heads = 4, .n_qk_heads = 2, .d_qk = 2, .top_k = 2};
  EXPECT_EQ(StepFlops(config, {.sequences = 2, .context = 3}), 864 + 360 + 288);
}

}  // namespace
}  // namespace lorsa::trainer

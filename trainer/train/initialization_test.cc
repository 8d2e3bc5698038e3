#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "base/scratch_folder.h"
#include "trainer/lorsa/fixtures.h"
#include "trainer/lorsa/reference_lorsa.h"
#include "trainer/train/attention_initialization.h"
#include "trainer/train/layer_attention.h"
#include "trainer/train/testing/synthetic_set.h"

namespace lorsa::trainer {
namespace {

constexpr double kTolerance = 1e-5;

at::Generator Seeded() { return at::make_generator<at::CPUGeneratorImpl>(uint64_t{3}); }

// The golden file's layer, written as an attention.safetensors and loaded from there.
class FromAttentionFixtureTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = scratch_.Path("attention.safetensors");
    const NamedTensors weights = {
        {"q_proj.weight", fixture_.At("q_proj")}, {"k_proj.weight", fixture_.At("k_proj")},
        {"v_proj.weight", fixture_.At("v_proj")}, {"o_proj.weight", fixture_.At("o_proj")},
        {"q_proj.bias", fixture_.At("q_bias")},   {"k_proj.bias", fixture_.At("k_bias")},
        {"v_proj.bias", fixture_.At("v_bias")},   {"o_proj.bias", fixture_.At("o_bias")}};
    ASSERT_TRUE(WriteTensorFile(fs_, path, weights).ok());
    const auto layer = LoadLayerAttention(fs_, path, Geometry(), fixture_.description["d_model"],
                                          fixture_.description["scale_in"], at::kCPU);
    ASSERT_TRUE(layer.ok()) << layer.status();
    layer_ = *layer;
    out_ = ZeroParameters(config_, at::kCPU);
  }

  store::AttentionGeometry Geometry() const {
    const nlohmann::json& j = fixture_.description;
    return {.n_heads = j["n_heads"],
            .n_kv_heads = j["n_kv_heads"],
            .d_head = j["d_head"],
            .attn_scale = 1};
  }
  LorsaConfig Config() const {
    const nlohmann::json& j = fixture_.description;
    return {.d_model = j["d_model"],
            .n_ov_heads = j["n_ov"],
            .n_qk_heads = j["n_qk"],
            .d_qk = j["d_head"],
            .top_k = 4,
            .attn_scale = 1};
  }

  const ScratchFolder scratch_;
  PosixFileSystem fs_;
  const Fixture fixture_ = LoadFixture("init_from_attention");
  const LorsaConfig config_ = Config();
  LayerAttention layer_;
  LorsaParameters out_;
};

TEST_F(FromAttentionFixtureTest, QkIsTheLayersOwn) {
  ASSERT_TRUE(CheckFitsLayer(config_, layer_).ok());
  CopyQk(config_, layer_, out_);
  EXPECT_LE(RelativeError(out_.w_q, fixture_.At("expect_W_Q")), kTolerance);
  EXPECT_LE(RelativeError(out_.w_k, fixture_.At("expect_W_K")), kTolerance);
  EXPECT_LE(RelativeError(out_.b_q, fixture_.At("expect_b_Q")), kTolerance);
  EXPECT_LE(RelativeError(out_.b_k, fixture_.At("expect_b_K")), kTolerance);
}

TEST_F(FromAttentionFixtureTest, OvReadsInEachHeadsActiveSubspaceAndWritesWhatTheHeadWould) {
  at::Generator generator = Seeded();
  InitializeOvFromAttention(config_, layer_, generator, out_);
  const int64_t heads = layer_.n_heads(), count = config_.n_ov_heads / heads;
  for (int64_t h = 0; h < heads; ++h) {
    const at::Tensor w_v = out_.w_v.narrow(0, h * count, count);
    const at::Tensor w_o = out_.w_o.narrow(0, h * count, count);
    const at::Tensor projector = fixture_.At("expect_active_subspace_projector")[h];
    EXPECT_LE(RelativeError(w_v.matmul(projector), w_v), kTolerance) << "head " << h;
    const at::Tensor written =
        w_v.matmul(fixture_.At("expect_WV")[h]).matmul(fixture_.At("expect_WO")[h]);
    EXPECT_LE(RelativeError(w_o, UnitRows(written)), kTolerance) << "head " << h;
    EXPECT_LE(RelativeError(w_v.norm(2, {1}), at::ones({count})), kTolerance);
    // The directions span the whole subspace.
    EXPECT_EQ(at::linalg_matrix_rank(w_v, 1e-4).item<int64_t>(), layer_.d_head());
  }
  EXPECT_EQ(out_.b_v.abs().max().item<double>(), 0);
}

TEST_F(FromAttentionFixtureTest, ShapesThatDoNotFitTheLayerAreNamed) {
  LorsaConfig config = config_;
  config.d_qk = 4;
  EXPECT_EQ(CheckFitsLayer(config, layer_).code(), absl::StatusCode::kInvalidArgument);
  config = config_;
  config.n_qk_heads = 6;
  EXPECT_EQ(CheckFitsLayer(config, layer_).code(), absl::StatusCode::kInvalidArgument);
}

// Attention values of a small layer, and OV heads drawn from them.
class FromSamplesTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = scratch_.Path("attention.safetensors");
    ASSERT_TRUE(WriteTensorFile(fs_, path, set_.attention).ok());
    const auto layer = LoadLayerAttention(fs_, path, *set_.manifest.attention,
                                          set_.manifest.d_model, kScale, at::kCPU);
    ASSERT_TRUE(layer.ok()) << layer.status();
    layer_ = *layer;
    at::Generator generator = Seeded();
    x_ = at::randn({64, 6, set_.manifest.d_model}, generator) * kScale;
    values_ = layer_.HeadValues(x_).flatten(0, 1);
    out_ = ZeroParameters(config_, at::kCPU);
    CopyQk(config_, layer_, out_);
    InitializeOvFromSamples(config_, layer_, values_, generator, out_);
  }

  static constexpr double kScale = 2.5;
  const ScratchFolder scratch_;
  PosixFileSystem fs_;
  const SyntheticSet set_ = MakeSyntheticSet(130);
  const LorsaConfig config_ = SyntheticConfig(set_).lorsa;
  LayerAttention layer_;
  at::Tensor x_, values_;
  LorsaParameters out_;
};

TEST_F(FromSamplesTest, PreActivationsAreCentredAndWeighedByTheirSpread) {
  const at::Tensor z = ReferenceLorsa(config_).Inspect(out_, x_).z.flatten(0, 1);
  EXPECT_LE(z.mean(0).abs().max().item<double>(), 1e-5);
  const at::Tensor deviation = z.std(0, /*unbiased=*/false);
  EXPECT_LE(
      RelativeError(out_.w_o.norm(2, {1}).square() * deviation, at::ones({config_.n_ov_heads})),
      1e-4);
  EXPECT_LE(RelativeError(out_.w_v.norm(2, {1}), at::ones({config_.n_ov_heads})), kTolerance);
}

TEST_F(FromSamplesTest, EachHeadWritesWhatOneTargetsCentredValueWouldWrite) {
  const int64_t count = config_.n_ov_heads / layer_.n_heads();
  for (int64_t h = 0; h < layer_.n_heads(); ++h) {
    const at::Tensor z = values_.select(1, h);
    const at::Tensor written = UnitRows((z - z.mean(0)).matmul(layer_.OutputWeight(h)));
    const at::Tensor rows = UnitRows(out_.w_o.narrow(0, h * count, count));
    const at::Tensor best = std::get<0>(rows.matmul(written.t()).max(1));
    EXPECT_GE(best.min().item<double>(), 1 - 1e-5) << "head " << h;
  }
}

TEST_F(FromSamplesTest, TheSameSeedGivesTheSameHeads) {
  const auto draw = [&](uint64_t seed) {
    LorsaParameters out = ZeroParameters(config_, at::kCPU);
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    InitializeOvFromSamples(config_, layer_, values_, generator, out);
    return out.w_v;
  };
  EXPECT_TRUE(draw(1).equal(draw(1)));
  EXPECT_FALSE(draw(1).equal(draw(2)));
}

// The layer as a Lorsa gives what the set's attention gave, whatever the input scale.
TEST_F(FromSamplesTest, TheLayerReproducesItsOutput) {
  for (const store::Sequence& sequence : {set_.sequences[0], set_.sequences[9]}) {
    const auto tensor = [&](const std::string& bytes) {
      return at::from_blob(const_cast<char*>(bytes.data()), {1, 6, 8}, at::kFloat).clone();
    };
    const at::Tensor y = ReferenceLorsa(layer_.config)
                             .Forward(layer_.parameters, tensor(sequence.mhsa_input) * kScale)
                             .reconstruction;
    EXPECT_LE(RelativeError(y, tensor(sequence.mhsa_output)), kTolerance);
  }
}

}  // namespace
}  // namespace lorsa::trainer

#include "trainer/train/testing/synthetic_set.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "trainer/lorsa/reference_lorsa.h"

namespace lorsa::trainer {
namespace {

constexpr int64_t kHeads = 2, kHeadWidth = 4, kModel = 8, kContext = 6;

std::string Bytes(const at::Tensor& tensor) {
  const at::Tensor t = tensor.contiguous();
  return std::string(static_cast<const char*>(t.const_data_ptr()), t.nbytes());
}

store::AttentionGeometry Geometry() {
  return {.n_heads = kHeads,
          .n_kv_heads = 1,
          .d_head = kHeadWidth,
          .attn_scale = 2,
          .rope = store::Rope{.base = 100, .rotary_dim = kHeadWidth}};
}

NamedTensors Weights(at::Generator& generator) {
  const auto draw = [&](at::IntArrayRef shape) { return at::randn(shape, generator) / 2; };
  return {{"q_proj.weight", draw({kHeads * kHeadWidth, kModel})},
          {"k_proj.weight", draw({kHeadWidth, kModel})},
          {"v_proj.weight", draw({kHeadWidth, kModel})},
          {"o_proj.weight", draw({kModel, kHeads * kHeadWidth})},
          {"q_proj.bias", draw({kHeads * kHeadWidth})},
          {"v_proj.bias", draw({kHeadWidth})}};
}

// What the layer returns for `x` [N, S, d]: rotation aside, plain causal attention.
at::Tensor Attend(const NamedTensors& weights, const at::Tensor& x) {
  const auto weight = [&](size_t i) { return weights[i].second; };
  LorsaConfig config{.d_model = kModel,
                     .n_ov_heads = kHeads * kHeadWidth,
                     .n_qk_heads = kHeads,
                     .d_qk = kHeadWidth,
                     .top_k = kHeads * kHeadWidth,
                     .selection = Selection::kSigned,
                     .decoder_bias = false,
                     .attn_scale = 2,
                     .rope = Geometry().rope};
  LorsaParameters p;
  p.w_q = weight(0).view({kHeads, kHeadWidth, kModel}).transpose(1, 2).contiguous();
  p.w_k = weight(1).t().unsqueeze(0).repeat({kHeads, 1, 1});
  p.b_q = weight(4).view({kHeads, kHeadWidth});
  p.b_k = at::zeros({kHeads, kHeadWidth});
  p.w_v = weight(2).repeat({kHeads, 1});
  p.b_v = weight(5).repeat({kHeads});
  p.w_o = weight(3).t().contiguous();
  return ReferenceLorsa(config).Forward(p, x).reconstruction;
}

double MeanTargetNorm(const at::Tensor& activations) {
  return activations.narrow(1, 1, kContext - 1).norm(2, {-1}).mean().item<double>();
}

}  // namespace

SyntheticSet MakeSyntheticSet(int64_t sequences) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  SyntheticSet set{.attention = Weights(generator)};
  const at::Tensor x = at::randn({sequences, kContext, kModel}, generator);
  const at::Tensor y = Attend(set.attention, x);
  const std::string mask = std::string(1, 0) + std::string(kContext - 1, 1);
  for (int64_t i = 0; i < sequences; ++i) {
    set.sequences.push_back({.index = i,
                             .mhsa_input = Bytes(x[i]),
                             .mhsa_output = Bytes(y[i]),
                             .tokens = std::string(4 * kContext, 0),
                             .mask = mask});
  }
  set.manifest = {.model = "synthetic",
                  .model_revision = "1",
                  .layer = 3,
                  .attention = Geometry(),
                  .d_model = kModel,
                  .context = kContext,
                  .element_type = store::ElementType::kFloat32,
                  .sequences = sequences,
                  .unmasked_tokens = sequences * (kContext - 1),
                  .mean_input_norm = MeanTargetNorm(x),
                  .mean_output_norm = MeanTargetNorm(y)};
  return set;
}

void MakeOutlier(SyntheticSet& set, int64_t sequence) {
  std::string& bytes = set.sequences[sequence].mhsa_output;
  at::Tensor target = at::from_blob(bytes.data(), {kContext, kModel})[3];
  target.mul_(47 * set.manifest.mean_output_norm / target.norm().item<double>());
}

TrainConfig SyntheticConfig(const SyntheticSet& set) {
  const int64_t per_step = 4 * kContext;
  return {.lorsa = {.d_model = kModel,
                    .n_ov_heads = 16,
                    .n_qk_heads = 4,
                    .d_qk = kHeadWidth,
                    .top_k = 3,
                    .attn_scale = 2,
                    .rope = Geometry().rope},
          .set = set.manifest,
          .initialization = Initialization::kDataSampled,
          .total_tokens = 20 * per_step,
          .sequences_per_step = 4,
          .learning_rate = 1e-2,
          .seed = 7,
          .evaluation_interval_tokens = 10 * per_step,
          .checkpoint_interval_tokens = 5 * per_step};
}

}  // namespace lorsa::trainer

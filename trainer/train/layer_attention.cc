#include "trainer/train/layer_attention.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "activation_store/attention_weights.h"
#include "base/status_macros.h"
#include "trainer/lorsa/reference_lorsa.h"
#include "trainer/lorsa/tensor_file.h"
#include "trainer/train/gradients.h"

namespace lorsa::trainer {
namespace {

LorsaConfig AsLorsa(const store::AttentionGeometry& geometry, int64_t d_model) {
  const int64_t n_ov_heads = geometry.n_heads * geometry.d_head;
  return {.d_model = d_model,
          .n_ov_heads = n_ov_heads,
          .n_qk_heads = geometry.n_heads,
          .d_qk = geometry.d_head,
          .top_k = n_ov_heads,
          .selection = Selection::kSigned,
          .attn_scale = geometry.attn_scale,
          .rope = geometry.rope,
          .qk_norm = geometry.qk_norm};
}

// Takes tensors out of the file; a bias that the layer lacks is zero.
class Weights {
 public:
  Weights(const TensorFile& file, const store::AttentionGeometry& geometry, int64_t d_model,
          at::Device device)
      : file_(file), geometry_(geometry), d_model_(d_model), device_(device) {}

  // [n_heads, d_head, d] of a projection of `heads` heads, repeated up to n_heads.
  at::Tensor Projection(const std::string& name, int64_t heads) {
    return Expand(Take(name + ".weight").view({heads, geometry_.d_head, d_model_}), heads);
  }
  // [n_heads, d_head]
  at::Tensor ProjectionBias(const std::string& name, int64_t heads) {
    if (!file_.Has(name + ".bias")) {
      return at::zeros({geometry_.n_heads, geometry_.d_head}, at::device(device_));
    }
    return Expand(Take(name + ".bias").view({heads, geometry_.d_head}), heads);
  }
  // [d, n_heads·d_head]
  at::Tensor Output() { return Take("o_proj.weight"); }
  at::Tensor OutputBias() {
    return file_.Has("o_proj.bias") ? Take("o_proj.bias")
                                    : at::zeros({d_model_}, at::device(device_));
  }
  // [n_heads, d_head]
  at::Tensor NormGain(const std::string& name) {
    return Take(name).expand({geometry_.n_heads, geometry_.d_head}).contiguous();
  }

  const absl::Status& status() const { return status_; }

 private:
  at::Tensor Take(const std::string& name) {
    absl::StatusOr<at::Tensor> tensor = file_.Read(name);
    status_.Update(tensor.status());
    // The shapes were checked; after an error the result is thrown away.
    return tensor.ok() ? tensor->to(device_) : at::zeros(file_.entries().at(name).shape);
  }
  at::Tensor Expand(const at::Tensor& per_head, int64_t heads) const {
    return per_head.repeat_interleave(geometry_.n_heads / heads, 0);
  }

  const TensorFile& file_;
  const store::AttentionGeometry& geometry_;
  const int64_t d_model_;
  const at::Device device_;
  absl::Status status_;
};

}  // namespace

at::Tensor LayerAttention::ValueWeight(int64_t head) const {
  return parameters.w_v.narrow(0, head * d_head(), d_head());
}

at::Tensor LayerAttention::ValueBias(int64_t head) const {
  return parameters.b_v.narrow(0, head * d_head(), d_head());
}

at::Tensor LayerAttention::OutputWeight(int64_t head) const {
  return parameters.w_o.narrow(0, head * d_head(), d_head());
}

at::Tensor LayerAttention::HeadValues(const at::Tensor& x) const {
  return ReferenceLorsa(config)
      .Inspect(parameters, x)
      .z.view({x.size(0), x.size(1), n_heads(), d_head()});
}

absl::StatusOr<LayerAttention> LoadLayerAttention(FileSystem& fs, const std::string& path,
                                                  const store::AttentionGeometry& geometry,
                                                  int64_t d_model, double input_scale,
                                                  at::Device device) {
  LORSA_RETURN_IF_ERROR(store::CheckAttentionWeights(fs, path, geometry, d_model));
  LORSA_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(fs, path));
  Weights weights(file, geometry, d_model, device);
  LayerAttention layer{.config = AsLorsa(geometry, d_model)};
  const int64_t heads = geometry.n_heads, kv_heads = geometry.n_kv_heads;
  LorsaParameters& p = layer.parameters;
  p.w_q = weights.Projection("q_proj", heads).transpose(1, 2).contiguous() / input_scale;
  p.w_k = weights.Projection("k_proj", kv_heads).transpose(1, 2).contiguous() / input_scale;
  p.b_q = weights.ProjectionBias("q_proj", heads);
  p.b_k = weights.ProjectionBias("k_proj", kv_heads);
  p.w_v = weights.Projection("v_proj", kv_heads).flatten(0, 1) / input_scale;
  p.b_v = weights.ProjectionBias("v_proj", kv_heads).flatten();
  p.w_o = weights.Output().t().contiguous();
  p.b_d = weights.OutputBias();
  if (geometry.qk_norm) {
    p.ln_q = weights.NormGain("q_norm.weight");
    p.ln_k = weights.NormGain("k_norm.weight");
  }
  LORSA_RETURN_IF_ERROR(weights.status());
  if (const std::string bad = FirstNonFinite(layer.config, p); !bad.empty()) {
    return absl::DataLossError(absl::StrCat(path, " has NaN or Inf in what becomes ", bad, "."));
  }
  return layer;
}

}  // namespace lorsa::trainer

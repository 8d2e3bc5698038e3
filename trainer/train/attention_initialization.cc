#include "trainer/train/attention_initialization.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"

namespace lorsa::trainer {
namespace {

// Added to the diagonal of a head's covariance, relative to its mean: values have directions that
// hardly vary, along which Σ⁻¹ would amplify noise.
constexpr double kRidge = 0.1;
// Least standard deviation of a pre-activation relative to the head's mean one.
constexpr double kLeastDeviation = 1e-3;

// Statistics are made on the CPU in double precision: small matrices, inverted once.
at::Tensor InDouble(const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble); }

// What the OV heads of one head of the layer start from.
struct OvRows {
  at::Tensor w_v;  // [n, d]
  at::Tensor b_v;  // [n]
  at::Tensor w_o;  // [n, d]
};

void StoreRows(const OvRows& rows, int64_t first, LorsaParameters& out) {
  const int64_t count = rows.w_v.size(0);
  out.w_v.narrow(0, first, count).copy_(rows.w_v);
  out.b_v.narrow(0, first, count).copy_(rows.b_v);
  out.w_o.narrow(0, first, count).copy_(rows.w_o);
}

OvRows RandomRows(const LayerAttention& layer, int64_t head, int64_t count,
                  at::Generator& generator) {
  const at::Tensor read = InDouble(layer.ValueWeight(head));
  const at::Tensor write = InDouble(layer.OutputWeight(head));
  const at::Tensor basis = std::get<2>(at::linalg_svd(read, /*full_matrices=*/false));
  const at::Tensor mixture = at::randn({count, basis.size(0)}, generator, at::dtype(at::kDouble));
  const at::Tensor w_v = UnitRows(mixture.matmul(basis));
  return {.w_v = w_v,
          .b_v = at::zeros({count}, at::kDouble),
          .w_o = UnitRows(w_v.matmul(read.t()).matmul(write))};
}

// `count` row numbers of `centred` [N, d_head], by the size of what each makes the layer write.
at::Tensor DrawTargets(const at::Tensor& centred, const at::Tensor& write, int64_t count,
                       at::Generator& generator) {
  const at::Tensor gram = write.matmul(write.t());
  at::Tensor weights = (centred.matmul(gram) * centred).sum(-1).clamp_min(0).sqrt();
  // Every target can be drawn, so that there are enough of them even where most write nothing.
  weights = weights + 1e-9 * weights.mean() + 1e-30;
  return weights.multinomial(count, /*replacement=*/count > weights.numel(), generator);
}

OvRows SampledRows(const LayerAttention& layer, int64_t head, const at::Tensor& z, int64_t count,
                   at::Generator& generator) {
  const at::Tensor read = InDouble(layer.ValueWeight(head));
  const at::Tensor write = InDouble(layer.OutputWeight(head));
  const at::Tensor mean = z.mean(0);
  const at::Tensor centred = z - mean;
  const at::Tensor covariance = centred.t().matmul(centred) / z.size(0);
  const double ridge = kRidge * covariance.diagonal().mean().item<double>() + 1e-30;
  const at::Tensor regular = covariance + ridge * at::eye(z.size(1), at::kDouble);

  const at::Tensor drawn = centred.index_select(0, DrawTargets(centred, write, count, generator));
  const at::Tensor probes = at::linalg_solve(regular, drawn.t()).t();  // Σ⁻¹(z_t−μ), [n, d_head]
  const at::Tensor directions = probes.matmul(read);
  const at::Tensor lengths = directions.norm(2, {1}).clamp_min(1e-30);
  // z_i = (z − b_v)·probe / length: its mean and standard deviation follow from those of z.
  const at::Tensor means = probes.matmul(mean - InDouble(layer.ValueBias(head))) / lengths;
  const at::Tensor deviations =
      (probes.matmul(covariance) * probes).sum(-1).clamp_min(0).sqrt() / lengths;
  const at::Tensor floor = (kLeastDeviation * deviations.mean()).clamp_min(1e-30);
  return {.w_v = directions / lengths.unsqueeze(1),
          .b_v = -means,
          .w_o = UnitRows(drawn.matmul(write)) / deviations.maximum(floor).sqrt().unsqueeze(1)};
}

}  // namespace

absl::Status CheckFitsLayer(const LorsaConfig& config, const LayerAttention& layer) {
  if (config.d_qk != layer.d_head()) {
    return absl::InvalidArgumentError(
        absl::StrCat("d_qk is ", config.d_qk, "; to start from the layer's attention give its ",
                     "d_head, ", layer.d_head(), ", or choose the random initialisation."));
  }
  if (config.n_qk_heads % layer.n_heads() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "n_qk_heads is ", config.n_qk_heads, "; to start from the layer's attention give a ",
        "multiple of its heads, ", layer.n_heads(), ", or choose the random initialisation."));
  }
  return absl::OkStatus();
}

void CopyQk(const LorsaConfig& config, const LayerAttention& layer, LorsaParameters& out) {
  const int64_t copies = config.n_qk_heads / layer.n_heads();
  const LorsaParameters& from = layer.parameters;
  out.w_q.copy_(from.w_q.repeat_interleave(copies, 0));
  out.w_k.copy_(from.w_k.repeat_interleave(copies, 0));
  out.b_q.copy_(from.b_q.repeat_interleave(copies, 0));
  out.b_k.copy_(from.b_k.repeat_interleave(copies, 0));
  if (!config.qk_norm) return;
  if (!layer.config.qk_norm) {
    out.ln_q.fill_(1);
    out.ln_k.fill_(1);
    return;
  }
  out.ln_q.copy_(from.ln_q.repeat_interleave(copies, 0));
  out.ln_k.copy_(from.ln_k.repeat_interleave(copies, 0));
}

void InitializeOvFromAttention(const LorsaConfig& config, const LayerAttention& layer,
                               at::Generator& generator, LorsaParameters& out) {
  const int64_t count = config.n_ov_heads / layer.n_heads();
  for (int64_t head = 0; head < layer.n_heads(); ++head) {
    StoreRows(RandomRows(layer, head, count, generator), head * count, out);
  }
}

void InitializeOvFromSamples(const LorsaConfig& config, const LayerAttention& layer,
                             const at::Tensor& values, at::Generator& generator,
                             LorsaParameters& out) {
  const int64_t count = config.n_ov_heads / layer.n_heads();
  for (int64_t head = 0; head < layer.n_heads(); ++head) {
    const at::Tensor z = InDouble(values.select(1, head));
    StoreRows(SampledRows(layer, head, z, count, generator), head * count, out);
  }
}

}  // namespace lorsa::trainer

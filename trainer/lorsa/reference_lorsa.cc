// Letters of shapes: B sequences, S positions, T = B·S tokens, d = d_model, H OV heads, G QK heads,
// D = d_qk, R = H/G, K = top_k. Names end in the shape where it is not plain.
#include "trainer/lorsa/reference_lorsa.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <tuple>

#include "trainer/lorsa/causal_pattern.h"
#include "trainer/lorsa/top_k.h"

namespace lorsa::trainer {
namespace {

Intermediates ComputePreActivations(const LorsaConfig& config, const LorsaParameters& p,
                                    const at::Tensor& x_BSd) {
  const int64_t B = x_BSd.size(0), S = x_BSd.size(1), G = config.n_qk_heads;
  Intermediates out;
  std::tie(out.q, out.k) = QueriesAndKeys(config, p, x_BSd);
  out.pattern = CausalPattern(out.q, out.k, config.attn_scale);
  out.v = at::addmm(p.b_v, x_BSd.reshape({-1, config.d_model}), p.w_v.t()).view({B, S, -1});
  const at::Tensor v_BGSR = out.v.view({B, S, G, -1}).transpose(1, 2);
  out.z = at::matmul(out.pattern, v_BGSR).transpose(1, 2).reshape({B, S, -1});
  return out;
}

// Σ_kept z_i W_O[i], [T, d], without ever forming the dense [T, H] activations.
at::Tensor DecodeHeads(const Activations& activations, const at::Tensor& w_o) {
  const at::Tensor& heads = activations.heads;
  const at::Tensor starts = at::arange(0, heads.numel(), heads.size(1), heads.options());
  return std::get<0>(
      at::embedding_bag(w_o, heads.flatten(), starts, /*scale_grad_by_freq=*/false, /*mode=sum*/ 0,
                        /*sparse=*/false, /*per_sample_weights=*/activations.values.flatten(),
                        /*include_last_offset=*/false));
}

ForwardResult DecodeTopK(const LorsaConfig& config, const LorsaParameters& parameters,
                         int64_t top_k, const at::Tensor& z_BSH) {
  ForwardResult out;
  out.activations = KeepTopK(config, top_k, z_BSH.flatten(0, 1), parameters.w_o);
  at::Tensor sums_Td = DecodeHeads(out.activations, parameters.w_o);
  if (parameters.b_d.defined()) sums_Td = sums_Td + parameters.b_d;
  out.reconstruction = sums_Td.view({z_BSH.size(0), z_BSH.size(1), config.d_model});
  return out;
}

// Squared errors summed over d and the unmasked targets.
at::Tensor SquaredError(const at::Tensor& error_BSd, const at::Tensor& mask_BS) {
  return (error_BSd.square().sum(-1) * mask_BS).sum();
}

at::Tensor AuxSquaredError(const LorsaConfig& config, const LorsaParameters& parameters,
                           const AuxLoss& aux, const at::Tensor& z_BSH, const at::Tensor& error_BSd,
                           const at::Tensor& mask_BS) {
  const Activations dead = KeepTopDead(config, aux, z_BSH.flatten(0, 1), parameters.w_o);
  const at::Tensor explained = DecodeHeads(dead, parameters.w_o).view_as(error_BSd);
  return SquaredError(error_BSd.detach() - explained, mask_BS);
}

// Leaves that share storage with `parameters` and collect gradients.
LorsaParameters TrackedLeaves(const LorsaConfig& config, const LorsaParameters& parameters) {
  LorsaParameters leaves;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    leaves.*spec.member = (parameters.*spec.member).detach().requires_grad_(true);
  }
  return leaves;
}

void CountActivity(const LorsaConfig& config, const Activations& activations,
                   const at::Tensor& mask_BS, StepResult& out) {
  const at::Tensor active = (activations.values != 0).logical_and(mask_BS.reshape({-1, 1}));
  out.firings = at::bincount(activations.heads.masked_select(active), /*weights=*/{},
                             /*minlength=*/config.n_ov_heads);
  const at::Tensor sizes = activations.values.masked_select(active).abs();
  if (sizes.numel() == 0) return;
  out.activation_sum = sizes.sum(at::kDouble).item<double>();
  out.activation_max = sizes.max().item<double>();
}

}  // namespace

StepResult ReferenceLorsa::ForwardBackward(const LorsaParameters& parameters, const Batch& batch,
                                           const StepOptions& options) {
  const LorsaParameters leaves = TrackedLeaves(config_, parameters);
  const at::Tensor z_BSH = ComputePreActivations(config_, leaves, batch.x).z;
  const ForwardResult forward = DecodeTopK(config_, leaves, options.top_k, z_BSH);
  const at::Tensor error_BSd = batch.y - forward.reconstruction;
  const at::Tensor loss = SquaredError(error_BSd, batch.mask) / options.loss_targets;
  at::Tensor total = loss, aux_loss;
  if (options.aux) {
    aux_loss = AuxSquaredError(config_, leaves, *options.aux, z_BSH, error_BSd, batch.mask) /
               options.loss_targets;
    total = loss + options.aux->coefficient * aux_loss;
  }
  total.backward();

  at::NoGradGuard no_grad;
  StepResult out;
  out.loss = loss.item<double>();
  if (options.aux) out.aux_loss = aux_loss.item<double>();
  out.targets = batch.mask.sum().item<int64_t>();
  CountActivity(config_, forward.activations, batch.mask, out);
  for (const ParameterSpec& spec : ParameterSpecs(config_)) {
    out.gradients.*spec.member = (leaves.*spec.member).grad();
  }
  return out;
}

ForwardResult ReferenceLorsa::Forward(const LorsaParameters& parameters, const at::Tensor& x) {
  at::NoGradGuard no_grad;
  return DecodeTopK(config_, parameters, config_.top_k,
                    ComputePreActivations(config_, parameters, x).z);
}

Intermediates ReferenceLorsa::Inspect(const LorsaParameters& parameters, const at::Tensor& x) {
  at::NoGradGuard no_grad;
  return ComputePreActivations(config_, parameters, x);
}

}  // namespace lorsa::trainer

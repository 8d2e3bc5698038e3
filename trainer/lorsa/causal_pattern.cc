#include "trainer/lorsa/causal_pattern.h"

#include <ATen/ATen.h>

#include <limits>

#include "trainer/lorsa/rope.h"

namespace lorsa::trainer {
namespace {

at::Tensor RmsNorm(const at::Tensor& x_BSGD, const at::Tensor& gain_GD, double epsilon) {
  const at::Tensor mean_square = x_BSGD.square().mean(-1, /*keepdim=*/true);
  return x_BSGD * (mean_square + epsilon).rsqrt() * gain_GD;
}

// x W + b for all heads in one product: [B, S, G, D].
at::Tensor ProjectHeads(const at::Tensor& x_BSd, const at::Tensor& w_GdD, const at::Tensor& b_GD) {
  const int64_t d = w_GdD.size(1);
  const at::Tensor w_dGD = w_GdD.permute({1, 0, 2}).reshape({d, -1});
  return at::addmm(b_GD.flatten(), x_BSd.reshape({-1, d}), w_dGD)
      .view({x_BSd.size(0), x_BSd.size(1), w_GdD.size(0), w_GdD.size(2)});
}

}  // namespace

std::pair<at::Tensor, at::Tensor> QueriesAndKeys(const LorsaConfig& config,
                                                 const LorsaParameters& parameters,
                                                 const at::Tensor& x) {
  at::Tensor q = ProjectHeads(x, parameters.w_q, parameters.b_q);
  at::Tensor k = ProjectHeads(x, parameters.w_k, parameters.b_k);
  if (config.qk_norm) {
    q = RmsNorm(q, parameters.ln_q, config.qk_norm->epsilon);
    k = RmsNorm(k, parameters.ln_k, config.qk_norm->epsilon);
  }
  if (config.rope) {
    const RopeTables tables = MakeRopeTables(*config.rope, x.size(1), x.device());
    q = ApplyRope(q, tables, config.rope->adjacent_pairs);
    k = ApplyRope(k, tables, config.rope->adjacent_pairs);
  }
  return {q, k};
}

at::Tensor CausalPattern(const at::Tensor& q_BSGD, const at::Tensor& k_BSGD, double attn_scale) {
  const int64_t positions = q_BSGD.size(1);
  const at::Tensor q_BGSD = (q_BSGD / attn_scale).transpose(1, 2);
  const at::Tensor future =
      at::ones({positions, positions}, q_BSGD.options().dtype(at::kBool)).triu(1);
  at::Tensor scores = at::matmul(q_BGSD, k_BSGD.permute({0, 2, 3, 1}));
  scores.masked_fill_(future, -std::numeric_limits<double>::infinity());
  return scores.softmax(-1);
}

}  // namespace lorsa::trainer

#include "trainer/lorsa/lorsa_parameters.h"

#include <ATen/ATen.h>

namespace lorsa::trainer {

std::vector<ParameterSpec> ParameterSpecs(const LorsaConfig& config) {
  const int64_t d = config.d_model, H = config.n_ov_heads, G = config.n_qk_heads, D = config.d_qk;
  using P = LorsaParameters;
  std::vector<ParameterSpec> specs = {
      {"W_Q", {G, d, D}, &P::w_q, true}, {"W_K", {G, d, D}, &P::w_k, true},
      {"b_Q", {G, D}, &P::b_q, true},    {"b_K", {G, D}, &P::b_k, true},
      {"W_V", {H, d}, &P::w_v, false},   {"b_V", {H}, &P::b_v, false},
      {"W_O", {H, d}, &P::w_o, false},
  };
  if (config.decoder_bias) specs.push_back({"b_D", {d}, &P::b_d, false});
  if (config.qk_norm) {
    specs.push_back({"ln_q.w", {G, D}, &P::ln_q, true});
    specs.push_back({"ln_k.w", {G, D}, &P::ln_k, true});
  }
  return specs;
}

LorsaParameters ZeroParameters(const LorsaConfig& config, at::Device device) {
  LorsaParameters parameters;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    parameters.*spec.member = at::zeros(spec.shape, at::device(device).dtype(at::kFloat));
  }
  return parameters;
}

at::Tensor UnitRows(const at::Tensor& matrix) {
  return matrix / matrix.norm(2, /*dim=*/{1}, /*keepdim=*/true).clamp_min(1e-30);
}

}  // namespace lorsa::trainer

// The weights of a Lorsa, or anything shaped like them: gradients, optimiser moments.
#ifndef LORSA_TRAINER_LORSA_LORSA_PARAMETERS_H_
#define LORSA_TRAINER_LORSA_LORSA_PARAMETERS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/lorsa_config.h"

namespace lorsa::trainer {

// fp32, contiguous, on one device. Copies share storage, as at::Tensor does.
struct LorsaParameters {
  at::Tensor w_q;   // [G, d, D]
  at::Tensor w_k;   // [G, d, D]
  at::Tensor b_q;   // [G, D]
  at::Tensor b_k;   // [G, D]
  at::Tensor w_v;   // [H, d]: row i reads for OV head i
  at::Tensor b_v;   // [H]
  at::Tensor w_o;   // [H, d]: row i is what OV head i writes
  at::Tensor b_d;   // [d]; undefined without decoder_bias
  at::Tensor ln_q;  // [G, D] gain; undefined without qk_norm
  at::Tensor ln_k;  // [G, D]
};

// One parameter of a configuration.
struct ParameterSpec {
  std::string name;  // in safetensors files: W_Q, …, ln_q.w
  std::vector<int64_t> shape;
  at::Tensor LorsaParameters::*member;
  bool is_qk;  // belongs to the QK circuit: its own learning rate
};

// The parameters that `config` has, always in the same order.
std::vector<ParameterSpec> ParameterSpecs(const LorsaConfig& config);

// All zero.
LorsaParameters ZeroParameters(const LorsaConfig& config, at::Device device);

// Rows of a matrix scaled to length 1; zero rows stay zero.
at::Tensor UnitRows(const at::Tensor& matrix);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_LORSA_PARAMETERS_H_

// The QK heads: from inputs to queries and keys, and from these to the attention pattern.
#ifndef LORSA_TRAINER_LORSA_CAUSAL_PATTERN_H_
#define LORSA_TRAINER_LORSA_CAUSAL_PATTERN_H_

#include <ATen/core/Tensor.h>

#include <utility>

#include "trainer/config/lorsa_config.h"
#include "trainer/lorsa/lorsa_parameters.h"

namespace lorsa::trainer {

// q and k of `x` [B, S, d], after norm and rope: [B, S, G, D] each. Differentiable.
std::pair<at::Tensor, at::Tensor> QueriesAndKeys(const LorsaConfig& config,
                                                 const LorsaParameters& parameters,
                                                 const at::Tensor& x);

// Softmax of q·k / attn_scale over the keys up to the query's own position: [B, G, S, S] (query,
// key) from q and k [B, S, G, D]. Differentiable.
at::Tensor CausalPattern(const at::Tensor& q_BSGD, const at::Tensor& k_BSGD, double attn_scale);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_CAUSAL_PATTERN_H_

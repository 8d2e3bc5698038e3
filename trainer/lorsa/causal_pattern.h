// The attention pattern of QK heads.
#ifndef LORSA_TRAINER_LORSA_CAUSAL_PATTERN_H_
#define LORSA_TRAINER_LORSA_CAUSAL_PATTERN_H_

#include <ATen/core/Tensor.h>

namespace lorsa::trainer {

// Softmax of q·k / attn_scale over the keys up to the query's own position: [B, G, S, S] (query,
// key) from q and k [B, S, G, D]. Differentiable.
at::Tensor CausalPattern(const at::Tensor& q_BSGD, const at::Tensor& k_BSGD, double attn_scale);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_CAUSAL_PATTERN_H_

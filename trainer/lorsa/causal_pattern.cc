#include "trainer/lorsa/causal_pattern.h"

#include <ATen/ATen.h>

#include <limits>

namespace lorsa::trainer {

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

// Rotary position embedding (arXiv 2104.09864), over the leading rotary_dim dimensions of a head.
#ifndef LORSA_TRAINER_LORSA_ROPE_H_
#define LORSA_TRAINER_LORSA_ROPE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "activation_store/manifest.h"

namespace lorsa::trainer {

// fp32 [positions, rotary_dim], each angle twice, in the order in which the dimensions pair up.
struct RopeTables {
  at::Tensor cos;
  at::Tensor sin;
};

// Angles are computed in fp32. NTK-by-parts as in Llama 3.1: frequencies whose wavelength exceeds
// original_context / low_freq_factor are divided by `factor`, those whose wavelength is below
// original_context / high_freq_factor stay, those between are interpolated.
RopeTables MakeRopeTables(const store::Rope& rope, int64_t positions, at::Device device);

// `x` [..., positions, heads, head dimension], rotated; differentiable.
at::Tensor ApplyRope(const at::Tensor& x, const RopeTables& tables, bool adjacent_pairs);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_ROPE_H_

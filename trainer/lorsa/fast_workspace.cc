#include "trainer/lorsa/fast_workspace.h"

namespace lorsa::trainer {

using kernels::kDepthUnit;
using kernels::RoundUp;

StepSizes::StepSizes(const LorsaConfig& config, int64_t sequences, int64_t positions)
    : B(sequences),
      S(positions),
      T(sequences * positions),
      d(config.d_model),
      H(config.n_ov_heads),
      G(config.n_qk_heads),
      D(config.d_qk),
      R(config.n_ov_heads / config.n_qk_heads),
      Sp(RoundUp(positions, kDepthUnit)),
      Tp(sequences * Sp),
      dp(RoundUp(config.d_model, kDepthUnit)),
      Dp(RoundUp(config.d_qk, kDepthUnit)) {}

void KeptHeads::Resize(int64_t tokens, int64_t new_capacity) {
  capacity = new_capacity;
  counts.Get(tokens);
  heads.Get(tokens * capacity);
  values.Get(tokens * capacity);
  gradients.Get(tokens * capacity);
}

}  // namespace lorsa::trainer

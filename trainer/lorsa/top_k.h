// The selection of the K active heads of each token.
#ifndef LORSA_TRAINER_LORSA_TOP_K_H_
#define LORSA_TRAINER_LORSA_TOP_K_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trainer/config/lorsa_config.h"
#include "trainer/lorsa/lorsa_kernel.h"

namespace lorsa::trainer {

// `z` [T, H] pre-activations, `w_o` [H, d]. The values are differentiable in z; nothing is in w_o.
Activations KeepTopK(const LorsaConfig& config, int64_t top_k, const at::Tensor& z,
                     const at::Tensor& w_o);

// The same among the heads where `dead` [H] is true, whatever the sign of their scores: AuxLoss.
Activations KeepTopDead(const LorsaConfig& config, const AuxLoss& aux, const at::Tensor& z,
                        const at::Tensor& w_o);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_TOP_K_H_

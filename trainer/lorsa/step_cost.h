// What a step costs, known before it. Without torch.
#ifndef LORSA_TRAINER_LORSA_STEP_COST_H_
#define LORSA_TRAINER_LORSA_STEP_COST_H_

#include <cstdint>

#include "trainer/config/lorsa_config.h"
#include "trainer/config/precision.h"

namespace lorsa::trainer {

struct StepShape {
  int64_t sequences = 0;
  int64_t context = 0;
  int64_t aux_top_k = 0;  // that of AuxLoss; 0 without
};

// Bytes that a kernel of MakeFastLorsa holds after such a step on so many threads, its gradients
// included. With a K warm-up give the largest K in `config`.
int64_t StepMemoryBytes(const LorsaConfig& config, Precision precision, const StepShape& shape,
                        int threads);

// Floating-point operations that the mathematics of a step needs, two per multiply-add: three
// projections and their weights' gradients, 2·2·T·d·(2·G·D + H); causal attention at half of its
// square, forward q·k and A·V, backward q·k again, dQ and dK, 2·T·S/2·G·(4·D + H/G); the sparse
// decode, dz and dW_O, 2·3·T·K·d, with dA and dV, 2·2·T·K·S/2. AuxLoss is not counted.
double StepFlops(const LorsaConfig& config, const StepShape& shape);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_STEP_COST_H_

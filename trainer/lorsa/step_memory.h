// The memory of a kernel's step, known before it. Without torch.
#ifndef LORSA_TRAINER_LORSA_STEP_MEMORY_H_
#define LORSA_TRAINER_LORSA_STEP_MEMORY_H_

#include <cstdint>

#include "trainer/lorsa/lorsa_config.h"
#include "trainer/lorsa/precision.h"

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

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_STEP_MEMORY_H_

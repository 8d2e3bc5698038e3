// The optimiser's passes over long fp32 arrays. Sums are taken over fixed pieces in double
// precision and added in order, so that they do not depend on the number of threads.
#ifndef LORSA_TRAINER_KERNELS_OPTIMIZER_H_
#define LORSA_TRAINER_KERNELS_OPTIMIZER_H_

#include <cstdint>

#include "trainer/kernels/loops.h"

namespace lorsa::kernels {

// A parameter, its gradient and its moments, `n` elements each.
struct AdamArrays {
  int64_t n = 0;
  const float* gradient = nullptr;
  float* mean = nullptr;
  float* variance = nullptr;
  float* parameter = nullptr;
};

// One step of Adam in place, in one pass over memory.
AdamSums AdamUpdate(const AdamConstants& constants, const AdamArrays& arrays);

// Σ x².
double SumOfSquares(const float* x, int64_t n);

}  // namespace lorsa::kernels

#endif  // LORSA_TRAINER_KERNELS_OPTIMIZER_H_

// Products of blocks with fp32 results, for use inside one task of a parallel loop.
#ifndef LORSA_TRAINER_KERNELS_BLOCK_GEMM_H_
#define LORSA_TRAINER_KERNELS_BLOCK_GEMM_H_

#include <cstdint>

#include "trainer/kernels/element.h"

namespace lorsa::kernels {

// C [m, n] = A [m, k] B [k, n], added to what is there if `accumulate`. `a` has rows of `lda`, `b`
// is in panels (element.h) that begin `panel_stride` elements apart, `c` has rows of `ldc`. k is a
// multiple of kDepthUnit. Elements of `c` beyond n are left alone. On the calling thread alone, in
// an order that depends on the sizes only; throws c10::Error.
template <typename T>
void Multiply(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b,
              int64_t panel_stride, float* c, int64_t ldc, bool accumulate);

// What multiplies blocks on this machine, as text: another one rounds differently.
template <typename T>
const char* MultiplierName();

// Gives back the state of the matrix units that Multiply left configured on this thread.
void ReleaseMultiplier();

}  // namespace lorsa::kernels

#endif  // LORSA_TRAINER_KERNELS_BLOCK_GEMM_H_

#include "trainer/kernels/block_gemm.h"

#include <ATen/ATen.h>
#include <ATen/native/CPUBlas.h>

#include <algorithm>

#include "trainer/kernels/loops.h"

namespace lorsa::kernels {
namespace {

namespace blas = at::native::cpublas;

// oneDNN's bf16 kernels of fixed size, compiled at run time.
bool HasBrgemm() {
  static const bool has = blas::could_pack(at::kBFloat16);
  return has;
}

void BrgemmPanel(int64_t m, int64_t n, int64_t k, const Bf16* a, int64_t lda, const Bf16* panel,
                 float* c, int64_t ldc, bool accumulate) {
  blas::brgemm(m, n, k, lda, kPanel, ldc, accumulate, reinterpret_cast<const at::BFloat16*>(a),
               reinterpret_cast<const at::BFloat16*>(panel), c, /*is_vnni=*/true);
}

}  // namespace

template <typename T>
void Multiply(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b,
              int64_t panel_stride, float* c, int64_t ldc, bool accumulate) {
  auto multiply = LoopsFor<T>(BestLevel()).multiply_panel;
  if constexpr (sizeof(T) == 2) {
    if (HasBrgemm()) multiply = BrgemmPanel;
  }
  for (int64_t j = 0; j < n; j += kPanel) {
    multiply(m, std::min(kPanel, n - j), k, a, lda, b + j / kPanel * panel_stride, c + j, ldc,
             accumulate);
  }
}

template <typename T>
const char* MultiplierName() {
  return sizeof(T) == 2 && HasBrgemm() ? "brgemm" : LevelName(BestLevel());
}

void ReleaseMultiplier() {
  if (HasBrgemm()) blas::brgemm_release();
}

template void Multiply<float>(int64_t, int64_t, int64_t, const float*, int64_t, const float*,
                              int64_t, float*, int64_t, bool);
template void Multiply<Bf16>(int64_t, int64_t, int64_t, const Bf16*, int64_t, const Bf16*, int64_t,
                             float*, int64_t, bool);
template const char* MultiplierName<float>();
template const char* MultiplierName<Bf16>();

}  // namespace lorsa::kernels

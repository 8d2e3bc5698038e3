#include "trainer/kernels/panels.h"

#include <algorithm>

namespace lorsa::kernels {
namespace {

// Rows of 32-bit words, of which a row of T is a whole number.
template <typename T>
void TransposeWords(const LoopSet<T>& loops, const T* in, int64_t in_stride, int64_t rows,
                    int64_t words, T* out, int64_t out_stride) {
  constexpr int64_t kPair = kInterleave<T>;
  loops.plain.transpose(reinterpret_cast<const uint32_t*>(in), in_stride / kPair, rows, words,
                        reinterpret_cast<uint32_t*>(out), out_stride / kPair);
}

}  // namespace

template <typename T>
void PackFloats(const LoopSet<T>& loops, const float* in, int64_t in_stride, int64_t rows,
                int64_t columns, int64_t depth, T* panels, int64_t panel_stride) {
  constexpr float kZeros[kPanel] = {};
  for (int64_t j = 0; j < columns; j += kPanel) {
    T* out = panels + j / kPanel * panel_stride;
    const int64_t width = std::min(kPanel, columns - j);
    for (int64_t i = 0; i < depth; i += kInterleave<T>) {
      const float* even = i < rows ? in + i * in_stride + j : kZeros;
      const float* odd = i + 1 < rows ? in + (i + 1) * in_stride + j : kZeros;
      loops.typed.interleave_floats(even, odd, width, out + i * kPanel);
    }
  }
}

template <typename T>
void PackRows(const LoopSet<T>& loops, const T* in, int64_t in_stride, int64_t rows,
              int64_t columns, T* panels, int64_t panel_stride) {
  for (int64_t j = 0; j < columns; j += kPanel) {
    T* out = panels + j / kPanel * panel_stride;
    const int64_t width = std::min(kPanel, columns - j);
    for (int64_t i = 0; i < rows; i += kInterleave<T>) {
      const T* even = in + i * in_stride + j;
      loops.typed.interleave(even, even + in_stride, width, out + i * kPanel);
    }
  }
}

template <typename T>
void PackTransposed(const LoopSet<T>& loops, const T* in, int64_t in_stride, int64_t rows,
                    int64_t columns, T* panels, int64_t panel_stride) {
  for (int64_t j = 0; j < rows; j += kPanel) {
    TransposeWords(loops, in + j * in_stride, in_stride, std::min(kPanel, rows - j),
                   columns / kInterleave<T>, panels + j / kPanel * panel_stride,
                   kPanel * kInterleave<T>);
  }
}

template <typename T>
void UnpackTransposed(const LoopSet<T>& loops, const T* panels, int64_t panel_stride, int64_t depth,
                      int64_t columns, T* out, int64_t out_stride) {
  for (int64_t j = 0; j < columns; j += kPanel) {
    TransposeWords(loops, panels + j / kPanel * panel_stride, kPanel * kInterleave<T>,
                   depth / kInterleave<T>, std::min(kPanel, columns - j), out + j * out_stride,
                   out_stride);
  }
}

#define LORSA_INSTANTIATE(T)                                                                       \
  template void PackFloats<T>(const LoopSet<T>&, const float*, int64_t, int64_t, int64_t, int64_t, \
                              T*, int64_t);                                                        \
  template void PackRows<T>(const LoopSet<T>&, const T*, int64_t, int64_t, int64_t, T*, int64_t);  \
  template void PackTransposed<T>(const LoopSet<T>&, const T*, int64_t, int64_t, int64_t, T*,      \
                                  int64_t);                                                        \
  template void UnpackTransposed<T>(const LoopSet<T>&, const T*, int64_t, int64_t, int64_t, T*,    \
                                    int64_t);
LORSA_INSTANTIATE(float)
LORSA_INSTANTIATE(Bf16)
#undef LORSA_INSTANTIATE

}  // namespace lorsa::kernels

// Matrices into the layouts that Multiply takes. `depth` is the length that the product sums over.
#ifndef LORSA_TRAINER_KERNELS_PANELS_H_
#define LORSA_TRAINER_KERNELS_PANELS_H_

#include <cstdint>

#include "trainer/kernels/loops.h"

namespace lorsa::kernels {

// The loops that a piece of work uses.
template <typename T>
struct LoopSet {
  const PlainLoops& plain;
  const Loops<T>& typed;
};

template <typename T>
LoopSet<T> LoopSetFor(Level level) {
  return {PlainLoopsFor(level), LoopsFor<T>(level)};
}

// fp32 [rows, columns] as a right factor: rows are the depth, zero up to `depth`.
template <typename T>
void PackFloats(const LoopSet<T>& loops, const float* in, int64_t in_stride, int64_t rows,
                int64_t columns, int64_t depth, T* panels, int64_t panel_stride);

// [rows, columns] as a right factor: rows, a multiple of kInterleave, are the depth.
template <typename T>
void PackRows(const LoopSet<T>& loops, const T* in, int64_t in_stride, int64_t rows,
              int64_t columns, T* panels, int64_t panel_stride);

// The transpose of [rows, columns] as a right factor: columns, a multiple of kInterleave, are the
// depth.
template <typename T>
void PackTransposed(const LoopSet<T>& loops, const T* in, int64_t in_stride, int64_t rows,
                    int64_t columns, T* panels, int64_t panel_stride);

// What PackRows made of [depth, columns], as [columns, depth] with rows of `out_stride`.
template <typename T>
void UnpackTransposed(const LoopSet<T>& loops, const T* panels, int64_t panel_stride, int64_t depth,
                      int64_t columns, T* out, int64_t out_stride);

}  // namespace lorsa::kernels

#endif  // LORSA_TRAINER_KERNELS_PANELS_H_

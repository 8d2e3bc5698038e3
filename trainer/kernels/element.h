// Working types of the fast path and the layout of the right factor of a product.
#ifndef LORSA_TRAINER_KERNELS_ELEMENT_H_
#define LORSA_TRAINER_KERNELS_ELEMENT_H_

#include <cstdint>

namespace lorsa::kernels {

// The upper half of a float's bits, as at::BFloat16.
struct Bf16 {
  uint16_t bits;
};

// Right factors B [K, N] are stored as panels of kPanel columns: a panel is
// [K / kInterleave][kPanel][kInterleave], so that for bf16 two rows lie in one 32-bit word, as the
// matrix instructions want them. Columns beyond N are never read into a result.
inline constexpr int64_t kPanel = 64;
template <typename T>
inline constexpr int64_t kInterleave = 4 / sizeof(T);

// Lengths over which products sum are padded with zeros to a multiple of this.
inline constexpr int64_t kDepthUnit = 32;

constexpr int64_t RoundUp(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
constexpr int64_t Panels(int64_t columns) { return (columns + kPanel - 1) / kPanel; }

// Row length of a left factor [M, K]: an odd number of cache lines, so that the rows of a tile do
// not fall into the same few sets of the first-level cache.
template <typename T>
constexpr int64_t RowStride(int64_t columns) {
  constexpr int64_t kLine = 64 / sizeof(T);
  return (RoundUp(columns, kLine) / kLine | 1) * kLine;
}

}  // namespace lorsa::kernels

#endif  // LORSA_TRAINER_KERNELS_ELEMENT_H_

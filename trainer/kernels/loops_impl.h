// The hot loops in vectors of 16 floats, whatever the machine's own width: the compiler splits
// them. Included by one source file per instruction level, which defines LORSA_LOOPS_SUFFIX.
// Nothing here may have external linkage except the tables, or the linker could give one level's
// code to another; so no standard library either.
#include <cstdint>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "trainer/kernels/loops.h"

namespace lorsa::kernels {
namespace {

constexpr int64_t kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));
typedef double Doubles __attribute__((vector_size(64)));
typedef float HalfFloats __attribute__((vector_size(32)));

#define LORSA_INLINE inline __attribute__((always_inline))

// --- Loads and stores; the last of a row may be a part ---

LORSA_INLINE Floats Broadcast(float x) { return Floats{} + x; }

template <typename V, typename P>
LORSA_INLINE V LoadBits(const P* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}

template <typename V, typename P>
LORSA_INLINE void StoreBits(P* p, V v) {
  __builtin_memcpy(p, &v, sizeof(v));
}

LORSA_INLINE Floats Widen(Halves h) { return (Floats)(__builtin_convertvector(h, Words) << 16); }

// To nearest, ties to even; every NaN to a quiet one.
LORSA_INLINE Halves Narrow(Floats v) {
  const Words w = (Words)v;
  Words rounded = (w + 0x7fffu + ((w >> 16) & 1u)) >> 16;
  rounded = v != v ? Words{} + 0x7fc0u : rounded;
  return __builtin_convertvector(rounded, Halves);
}

LORSA_INLINE Floats Load(const float* p) { return LoadBits<Floats>(p); }
LORSA_INLINE Floats Load(const Bf16* p) { return Widen(LoadBits<Halves>(p)); }
LORSA_INLINE void Store(float* p, Floats v) { StoreBits(p, v); }
LORSA_INLINE void Store(Bf16* p, Floats v) { StoreBits(p, Narrow(v)); }

#ifdef __AVX512F__

LORSA_INLINE Floats LoadPart(const float* p, int64_t n) {
  return (Floats)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

LORSA_INLINE Floats LoadPart(const Bf16* p, int64_t n) {
  return Widen((Halves)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p));
}

LORSA_INLINE void StorePart(float* p, Floats v, int64_t n) {
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}

LORSA_INLINE void StorePart(Bf16* p, Floats v, int64_t n) {
  _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m256i)Narrow(v));
}

#else

template <typename T>
LORSA_INLINE Floats LoadPart(const T* p, int64_t n) {
  T lanes[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i] = p[i];
  return Load(lanes);
}

template <typename T>
LORSA_INLINE void StorePart(T* p, Floats v, int64_t n) {
  T lanes[kLanes];
  Store(lanes, v);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

#endif

template <typename T>
LORSA_INLINE void Zero(T* p, int64_t n) {
  __builtin_memset(p, 0, n * sizeof(T));
}

// --- Sums across lanes, in a fixed order ---

template <typename V>
LORSA_INLINE auto SumLanes(V v) {
  constexpr int kCount = sizeof(v) / sizeof(v[0]);
  auto total = v[0];
  for (int i = 1; i < kCount; ++i) total += v[i];
  return total;
}

LORSA_INLINE Doubles ToDoubles(Floats v, int half) {
  HalfFloats part;
  __builtin_memcpy(&part, (const char*)&v + 32 * half, 32);
  return __builtin_convertvector(part, Doubles);
}

double Sum(const float* x, int64_t n) {
  Doubles low{}, high{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Floats v = Load(x + i);
    low += ToDoubles(v, 0);
    high += ToDoubles(v, 1);
  }
  const Floats v = LoadPart(x + i, n - i);
  return SumLanes(low + ToDoubles(v, 0) + high + ToDoubles(v, 1));
}

// Squares of floats, summed in double precision.
struct SquareSums {
  Doubles low{}, high{};

  LORSA_INLINE void Add(Floats v) {
    const Doubles a = ToDoubles(v, 0), b = ToDoubles(v, 1);
    low += a * a;
    high += b * b;
  }
  LORSA_INLINE double Total() const { return SumLanes(low + high); }
};

double SumOfSquares(const float* x, int64_t n) {
  SquareSums sums;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sums.Add(Load(x + i));
  sums.Add(LoadPart(x + i, n - i));
  return sums.Total();
}

// --- Optimiser ---

LORSA_INLINE Floats SquareRoot(Floats v) {
#ifdef __AVX512F__
  // The plain intrinsic warns of an uninitialised value (GCC bug 105593).
  return (Floats)_mm512_maskz_sqrt_ps(0xffff, (__m512)v);
#else
  for (int i = 0; i < kLanes; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
#endif
}

// What Adam does to 16 elements.
struct AdamLanes {
  Floats mean, variance, update, parameter;
};

LORSA_INLINE AdamLanes StepLanes(const AdamConstants& c, Floats gradient, Floats mean,
                                 Floats variance, Floats parameter) {
  gradient = gradient * c.gradient_factor;
  AdamLanes lanes;
  lanes.mean = mean + (gradient - mean) * c.one_minus_beta1;
  lanes.variance = variance * c.beta2 + gradient * gradient * c.one_minus_beta2;
  lanes.update = lanes.mean * c.step_size /
                 (SquareRoot(lanes.variance) * c.inverse_sqrt_correction + c.epsilon);
  lanes.parameter = parameter - lanes.update;
  return lanes;
}

AdamSums Adam(const AdamConstants& c, int64_t n, const float* gradient, float* mean,
              float* variance, float* parameter) {
  SquareSums updates, parameters;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const AdamLanes lanes =
        StepLanes(c, Load(gradient + i), Load(mean + i), Load(variance + i), Load(parameter + i));
    Store(mean + i, lanes.mean);
    Store(variance + i, lanes.variance);
    Store(parameter + i, lanes.parameter);
    updates.Add(lanes.update);
    parameters.Add(lanes.parameter);
  }
  if (const int64_t left = n - i; left > 0) {
    const AdamLanes lanes = StepLanes(c, LoadPart(gradient + i, left), LoadPart(mean + i, left),
                                      LoadPart(variance + i, left), LoadPart(parameter + i, left));
    StorePart(mean + i, lanes.mean, left);
    StorePart(variance + i, lanes.variance, left);
    StorePart(parameter + i, lanes.parameter, left);
    updates.Add(lanes.update);
    parameters.Add(lanes.parameter);
  }
  return {updates.Total(), parameters.Total()};
}

// --- Exponential ---

// Relative error about 1e-7 for x ≤ 0; below −87.3 the result is that of −87.3, 1.2e-38. Cody and
// Waite's reduction with the polynomial of Cephes' expf.
LORSA_INLINE Floats Exp(Floats x) {
  x = x < Broadcast(-87.3f) ? Broadcast(-87.3f) : x;
  const float magic = 12582912.f;  // 1.5·2^23: adding it rounds to a whole number
  const Floats shifted = x * 1.44269504088896341f + magic;
  const Floats whole = shifted - magic;
  const Floats r = x - whole * 0.693359375f - whole * -2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const Ints exponent = (Ints)shifted - (0x4b400000 - 127);
  return p * (Floats)(exponent << 23);
}

float MaximumOf(const float* x, int64_t n) {
  Floats top = Broadcast(x[0]);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Floats v = Load(x + i);
    top = v > top ? v : top;
  }
  float maximum = top[0];
  for (int lane = 1; lane < kLanes; ++lane) maximum = top[lane] > maximum ? top[lane] : maximum;
  for (; i < n; ++i) maximum = x[i] > maximum ? x[i] : maximum;
  return maximum;
}

template <typename T>
SoftmaxSums SoftmaxRow(const float* scores, int64_t n, float scale, T* p, int64_t padded) {
  const float maximum = MaximumOf(scores, n) * scale;
  Floats sums{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Floats e = Exp(Load(scores + i) * scale - maximum);
    sums += e;
    Store(p + i, e);
  }
  float sum = SumLanes(sums);
  if (i < n) {
    const Floats e = Exp(LoadPart(scores + i, n - i) * scale - maximum);
    for (int64_t lane = 0; lane < n - i; ++lane) sum += e[lane];
    StorePart(p + i, e, n - i);
  }
  Zero(p + n, padded - n);
  return {maximum + __builtin_logf(sum), 1 / sum};
}

void PatternRow(const float* scores, int64_t n, float scale, float log_sum_exp, float* a) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(a + i, Exp(Load(scores + i) * scale - log_sum_exp));
  if (i < n) StorePart(a + i, Exp(LoadPart(scores + i, n - i) * scale - log_sum_exp), n - i);
}

template <typename T>
void SoftmaxGradientRow(const float* a, const float* da, int64_t n, float scale, T* ds,
                        int64_t padded) {
  Floats dots{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) dots += Load(a + i) * Load(da + i);
  if (i < n) dots += LoadPart(a + i, n - i) * LoadPart(da + i, n - i);
  const float dot = SumLanes(dots);
  for (i = 0; i + kLanes <= n; i += kLanes) {
    Store(ds + i, Load(a + i) * (Load(da + i) - dot) * scale);
  }
  if (i < n) {
    StorePart(ds + i, LoadPart(a + i, n - i) * (LoadPart(da + i, n - i) - dot) * scale, n - i);
  }
  Zero(ds + n, padded - n);
}

// --- Conversion and layout ---

template <typename T>
void Convert(const float* in, int64_t n, T* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(out + i, Load(in + i));
  if (i < n) StorePart(out + i, LoadPart(in + i, n - i), n - i);
}

LORSA_INLINE void StoreInterleaved(Bf16* out, Halves even, Halves odd) {
  StoreBits(out, __builtin_convertvector(even, Words) | __builtin_convertvector(odd, Words) << 16);
}

void InterleaveFloats(const float* row0, const float* row1, int64_t n, Bf16* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    StoreInterleaved(out + 2 * i, Narrow(Load(row0 + i)), Narrow(Load(row1 + i)));
  }
  for (; i < n; ++i) {
    StorePart(out + 2 * i, Floats{row0[i], row1[i]}, 2);
  }
}

void InterleaveFloats(const float* row0, const float*, int64_t n, float* out) {
  __builtin_memcpy(out, row0, n * sizeof(float));
}

void Interleave(const Bf16* row0, const Bf16* row1, int64_t n, Bf16* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    StoreInterleaved(out + 2 * i, LoadBits<Halves>(row0 + i), LoadBits<Halves>(row1 + i));
  }
  for (; i < n; ++i) {
    out[2 * i] = row0[i];
    out[2 * i + 1] = row1[i];
  }
}

void Interleave(const float* row0, const float*, int64_t n, float* out) {
  __builtin_memcpy(out, row0, n * sizeof(float));
}

LORSA_INLINE void TransposeBlock(const uint32_t* in, int64_t in_stride, uint32_t* out,
                                 int64_t out_stride) {
  Words rows[16];
  for (int i = 0; i < 16; ++i) rows[i] = LoadBits<Words>(in + i * in_stride);
  // Four rounds of exchanging, between rows 2^s apart, the lanes that differ in bit s.
  constexpr Words kLow[4] = {
      {0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30},
      {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29},
      {0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27},
      {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23},
  };
  constexpr Words kHigh[4] = {
      {1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31},
      {2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31},
      {4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31},
      {8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31},
  };
#pragma GCC unroll 4
  for (int s = 0; s < 4; ++s) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      if (i & (1 << s)) continue;
      const Words a = rows[i], b = rows[i | (1 << s)];
      rows[i] = __builtin_shuffle(a, b, kLow[s]);
      rows[i | (1 << s)] = __builtin_shuffle(a, b, kHigh[s]);
    }
  }
  for (int i = 0; i < 16; ++i) StoreBits(out + i * out_stride, rows[i]);
}

void Transpose(const uint32_t* in, int64_t in_stride, int64_t rows, int64_t columns, uint32_t* out,
               int64_t out_stride) {
  for (int64_t r = 0; r < rows; r += 16) {
    for (int64_t c = 0; c < columns; c += 16) {
      const uint32_t* from = in + r * in_stride + c;
      uint32_t* to = out + c * out_stride + r;
      if (r + 16 <= rows && c + 16 <= columns) {
        TransposeBlock(from, in_stride, to, out_stride);
        continue;
      }
      for (int64_t i = 0; i < 16 && r + i < rows; ++i) {
        for (int64_t j = 0; j < 16 && c + j < columns; ++j) {
          to[j * out_stride + i] = from[i * in_stride + j];
        }
      }
    }
  }
}

// --- Sparse products ---

template <typename T>
LORSA_INLINE void Axpy4(const T* const rows[4], const float weights[4], int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Floats v = Load(y + i);
    for (int j = 0; j < 4; ++j) v += Load(rows[j] + i) * weights[j];
    Store(y + i, v);
  }
  if (i == n) return;
  Floats v = LoadPart(y + i, n - i);
  for (int j = 0; j < 4; ++j) v += LoadPart(rows[j] + i, n - i) * weights[j];
  StorePart(y + i, v, n - i);
}

template <typename T>
LORSA_INLINE void Axpy1(float weight, const T* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(y + i, Load(y + i) + Load(x + i) * weight);
  if (i < n) {
    StorePart(y + i, LoadPart(y + i, n - i) + LoadPart(x + i, n - i) * weight, n - i);
  }
}

void Axpy(float weight, const float* x, int64_t n, float* y) { Axpy1(weight, x, n, y); }

template <typename T>
void GatherSum(const T* base, int64_t stride, const int32_t* rows, const float* weights,
               int64_t count, int64_t n, float* y) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const T* const four[4] = {base + rows[j] * stride, base + rows[j + 1] * stride,
                              base + rows[j + 2] * stride, base + rows[j + 3] * stride};
    Axpy4(four, weights + j, n, y);
  }
  for (; j < count; ++j) Axpy1(weights[j], base + rows[j] * stride, n, y);
}

template <typename T>
void GatherDots(const T* base, int64_t stride, const int32_t* rows, int64_t count, const float* a,
                int64_t n, float factor, float* out) {
  for (int64_t j = 0; j < count; ++j) {
    const T* row = base + rows[j] * stride;
    Floats even{}, odd{};
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      even += Load(a + i) * Load(row + i);
      odd += Load(a + i + kLanes) * Load(row + i + kLanes);
    }
    for (; i < n; i += kLanes) {
      const int64_t left = n - i < kLanes ? n - i : kLanes;
      even += LoadPart(a + i, left) * LoadPart(row + i, left);
    }
    out[j] = factor * SumLanes(even + odd);
  }
}

template <typename T>
double ErrorRow(const float* reconstruction, const float* target, int64_t n, float factor,
                float* error, T* gradient, float* sum) {
  SquareSums squares;
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = n - i < kLanes ? n - i : kLanes;
    const bool whole = left == kLanes;
    const Floats e = whole ? Load(reconstruction + i) - Load(target + i)
                           : LoadPart(reconstruction + i, left) - LoadPart(target + i, left);
    squares.Add(e);
    const Floats g = e * factor;
    if (whole) {
      Store(error + i, e);
      Store(gradient + i, g);
      Store(sum + i, Load(sum + i) + g);
    } else {
      StorePart(error + i, e, left);
      StorePart(gradient + i, g, left);
      StorePart(sum + i, LoadPart(sum + i, left) + g, left);
    }
  }
  return squares.Total();
}

void ScaleRow(const float* in, int64_t n, float factor, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(out + i, Load(in + i) * factor);
  if (i < n) StorePart(out + i, LoadPart(in + i, n - i) * factor, n - i);
}

// --- Dense products, where no library or unit does them better ---

#ifdef __AVX512F__
constexpr int kBlockVectors = 4;  // of 16 columns: with six rows, 24 of 32 registers
#else
constexpr int kBlockVectors = 1;
#endif
constexpr int kBlockRows = 6;
constexpr int64_t kSumPiece = 128;

LORSA_INLINE float Scalar(const float* p) { return *p; }
LORSA_INLINE float Scalar(const Bf16* p) { return ((Floats)(Words{p->bits} << 16))[0]; }

template <int kRows>
LORSA_INLINE void AddProducts(const float* a, int64_t lda, const float* b,
                              Floats sums[kRows][kBlockVectors]) {
  for (int v = 0; v < kBlockVectors; ++v) {
    const Floats right = Load(b + kLanes * v);
    for (int r = 0; r < kRows; ++r) sums[r][v] += right * Scalar(a + r * lda);
  }
}

template <int kRows>
LORSA_INLINE void AddProducts(const Bf16* a, int64_t lda, const Bf16* b,
                              Floats sums[kRows][kBlockVectors]) {
  for (int v = 0; v < kBlockVectors; ++v) {
    const Words pairs = LoadBits<Words>(b + 2 * kLanes * v);
    const Floats even = (Floats)(pairs << 16), odd = (Floats)(pairs & 0xffff0000u);
    for (int r = 0; r < kRows; ++r) {
      sums[r][v] += even * Scalar(a + r * lda);
      sums[r][v] += odd * Scalar(a + r * lda + 1);
    }
  }
}

// kRows rows of C and up to kBlockVectors vectors of its columns, of which `n` count.
template <int kRows, typename T>
LORSA_INLINE void MultiplyBlock(int64_t n, int64_t k, const T* a, int64_t lda, const T* b, float* c,
                                int64_t ldc, bool accumulate) {
  Floats sums[kRows][kBlockVectors] = {};
  for (int64_t i = 0; i < k; i += kInterleave<T>) {
    AddProducts<kRows>(a + i, lda, b + i * kPanel, sums);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kBlockVectors; ++v) {
      float* to = c + r * ldc + kLanes * v;
      const int64_t left = n - kLanes * v;
      if (left >= kLanes) {
        Store(to, accumulate ? Load(to) + sums[r][v] : sums[r][v]);
      } else if (left > 0) {
        StorePart(to, accumulate ? LoadPart(to, left) + sums[r][v] : sums[r][v], left);
      }
    }
  }
}

// As MultiplyBlock, summing pieces first: fewer additions to one number, less rounding.
template <int kRows, typename T>
LORSA_INLINE void MultiplyInPieces(int64_t n, int64_t k, const T* a, int64_t lda, const T* b,
                                   float* c, int64_t ldc, bool accumulate) {
  for (int64_t i = 0; i < k; i += kSumPiece) {
    MultiplyBlock<kRows>(n, k - i < kSumPiece ? k - i : kSumPiece, a + i, lda, b + i * kPanel, c,
                         ldc, accumulate || i > 0);
  }
}

template <typename T>
void MultiplyPanel(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* panel,
                   float* c, int64_t ldc, bool accumulate) {
  for (int64_t j = 0; j < n; j += kLanes * kBlockVectors) {
    const T* right = panel + j * kInterleave<T>;
    int64_t i = 0;
    for (; i + kBlockRows <= m; i += kBlockRows) {
      MultiplyInPieces<kBlockRows>(n - j, k, a + i * lda, lda, right, c + i * ldc + j, ldc,
                                   accumulate);
    }
    for (; i < m; ++i) {
      MultiplyInPieces<1>(n - j, k, a + i * lda, lda, right, c + i * ldc + j, ldc, accumulate);
    }
  }
}

void AddScalar(float* row, int64_t n, float value) {
  for (int64_t i = 0; i < n; ++i) row[i] += value;
}

// --- Rope and norm of one head; short loops that the compiler spreads over vectors ---

void RotateHalves(float* __restrict row, const float* __restrict cos, const float* __restrict sin,
                  int64_t rotary_dim, float direction) {
  const int64_t half = rotary_dim / 2;
  float* __restrict upper = row + half;
  for (int64_t i = 0; i < half; ++i) {
    const float a = row[i], b = upper[i], s = sin[i] * direction;
    row[i] = a * cos[i] - b * s;
    upper[i] = b * cos[i] + a * s;
  }
}

void RotatePairs(float* __restrict row, const float* __restrict cos, const float* __restrict sin,
                 int64_t rotary_dim, float direction) {
  for (int64_t i = 0; i < rotary_dim; i += 2) {
    const float a = row[i], b = row[i + 1], s = sin[i] * direction;
    row[i] = a * cos[i] - b * s;
    row[i + 1] = b * cos[i] + a * s;
  }
}

LORSA_INLINE float DotPart(const float* a, const float* b, int64_t n) {
  Floats dots{};
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = n - i < kLanes ? n - i : kLanes;
    dots += LoadPart(a + i, left) * LoadPart(b + i, left);
  }
  return SumLanes(dots);
}

LORSA_INLINE float InverseRms(const float* row, int64_t n, float epsilon) {
  return 1 / __builtin_sqrtf(DotPart(row, row, n) / n + epsilon);
}

void NormRow(float* __restrict row, const float* __restrict gain, int64_t n, float epsilon) {
  const float inverse = InverseRms(row, n, epsilon);
  for (int64_t i = 0; i < n; ++i) row[i] *= inverse * gain[i];
}

void NormGradientRow(const float* __restrict raw, const float* __restrict gain, int64_t n,
                     float epsilon, float* __restrict gradient, float* __restrict gain_gradient) {
  const float inverse = InverseRms(raw, n, epsilon);
  for (int64_t i = 0; i < n; ++i) {
    gain_gradient[i] += gradient[i] * raw[i] * inverse;
    gradient[i] *= gain[i];
  }
  const float along = DotPart(gradient, raw, n) * inverse * inverse / n;
  for (int64_t i = 0; i < n; ++i) gradient[i] = inverse * (gradient[i] - raw[i] * along);
}

// --- Selection ---

LORSA_INLINE Ints OrderKeys(Floats scores) {
  const Ints bits = (Ints)scores;
  const Ints keys = bits ^ ((bits >> 31) & 0x7fffffff);
  return scores != scores ? Ints{} + 0x7fffffff : keys;
}

LORSA_INLINE Floats ScoresOf(Floats z, Floats weights, bool absolute) {
  if (absolute) z = (Floats)((Words)z & 0x7fffffffu);
  return z * weights;
}

// Appends the lanes of `keys` above `above` among the first `n`.
LORSA_INLINE int64_t Append(Ints keys, int32_t above, int64_t first, int64_t n, int32_t* out_keys,
                            int32_t* out_heads, int64_t count) {
#ifdef __AVX512F__
  const __mmask16 lanes = (__mmask16)((1u << n) - 1);
  const __mmask16 mask =
      _mm512_mask_cmpgt_epi32_mask(lanes, (__m512i)keys, _mm512_set1_epi32(above));
  if (mask == 0) return count;
  const __m512i heads =
      _mm512_add_epi32(_mm512_set1_epi32((int32_t)first),
                       _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
  // Compressing into a register first: to memory it is microcode on some processors.
  _mm512_storeu_si512(out_keys + count, _mm512_maskz_compress_epi32(mask, (__m512i)keys));
  _mm512_storeu_si512(out_heads + count, _mm512_maskz_compress_epi32(mask, heads));
  return count + __builtin_popcount(mask);
#else
  for (int64_t lane = 0; lane < n; ++lane) {
    out_keys[count] = keys[lane];
    out_heads[count] = (int32_t)(first + lane);
    count += keys[lane] > above;
  }
  return count;
#endif
}

int64_t CollectAbove(const float* z, const float* weights, bool absolute, int64_t n, int32_t above,
                     int32_t* keys, int32_t* heads) {
  int64_t count = 0, i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Floats w = weights == nullptr ? Broadcast(1) : Load(weights + i);
    count =
        Append(OrderKeys(ScoresOf(Load(z + i), w, absolute)), above, i, kLanes, keys, heads, count);
  }
  if (i == n) return count;
  const Floats w = weights == nullptr ? Broadcast(1) : LoadPart(weights + i, n - i);
  return Append(OrderKeys(ScoresOf(LoadPart(z + i, n - i), w, absolute)), above, i, n - i, keys,
                heads, count);
}

template <typename T>
constexpr Loops<T> MakeLoops() {
  Loops<T> loops{};
  loops.convert = Convert<T>;
  loops.interleave_floats = InterleaveFloats;
  loops.interleave = Interleave;
  loops.softmax_row = SoftmaxRow<T>;
  loops.gather_sum = GatherSum<T>;
  loops.gather_dots = GatherDots<T>;
  loops.softmax_gradient_row = SoftmaxGradientRow<T>;
  loops.error_row = ErrorRow<T>;
  loops.multiply_panel = MultiplyPanel<T>;
  return loops;
}

}  // namespace

#define LORSA_CONCAT_(a, b) a##b
#define LORSA_CONCAT(a, b) LORSA_CONCAT_(a, b)

extern const PlainLoops LORSA_CONCAT(kPlainLoops, LORSA_LOOPS_SUFFIX);
extern const Loops<float> LORSA_CONCAT(kFloatLoops, LORSA_LOOPS_SUFFIX);
extern const Loops<Bf16> LORSA_CONCAT(kBf16Loops, LORSA_LOOPS_SUFFIX);

const PlainLoops LORSA_CONCAT(kPlainLoops, LORSA_LOOPS_SUFFIX) = {
    .transpose = Transpose,
    .collect_above = CollectAbove,
    .pattern_row = PatternRow,
    .scale_row = ScaleRow,
    .add_scalar = AddScalar,
    .axpy = Axpy,
    .rotate_halves = RotateHalves,
    .rotate_pairs = RotatePairs,
    .norm_row = NormRow,
    .norm_gradient_row = NormGradientRow,
    .sum = Sum,
    .adam = Adam,
    .sum_of_squares = SumOfSquares,
};
const Loops<float> LORSA_CONCAT(kFloatLoops, LORSA_LOOPS_SUFFIX) = MakeLoops<float>();
const Loops<Bf16> LORSA_CONCAT(kBf16Loops, LORSA_LOOPS_SUFFIX) = MakeLoops<Bf16>();

}  // namespace lorsa::kernels

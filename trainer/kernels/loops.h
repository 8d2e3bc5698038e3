// The hot loops, one table of functions per instruction level. Each level is the same source
// compiled with other flags (loops_impl.h); results of two levels differ by rounding only.
#ifndef LORSA_TRAINER_KERNELS_LOOPS_H_
#define LORSA_TRAINER_KERNELS_LOOPS_H_

#include <cstdint>

#include "trainer/kernels/element.h"

namespace lorsa::kernels {

enum class Level { kPlain, kAvx2, kAvx512 };

// What a row of exponentials was divided by, in two forms.
struct SoftmaxSums {
  float log_sum_exp;
  float inverse_sum;
};

// One step of Adam (arXiv 1412.6980) with its bias corrections folded in:
// mean ← beta1·mean + (1 − beta1)·f·g, variance alike of (f·g)² with beta2, and the parameter moves
// by −step_size · mean / (sqrt(variance)·inverse_sqrt_correction + epsilon), f = gradient_factor.
struct AdamConstants {
  // 1 − beta is given too: taken in fp32 its error would be that of beta, many times its own.
  float one_minus_beta1, beta2, one_minus_beta2;
  float epsilon;
  float step_size;                // learning rate / (1 − beta1^steps)
  float inverse_sqrt_correction;  // 1 / sqrt(1 − beta2^steps)
  float gradient_factor;          // of clipping
};

// Over the elements of a step: of the squares of what was added, and of the new parameters.
struct AdamSums {
  double update_squares;
  double parameter_squares;
};

// Order of floats as order of integers; NaN is above all.
int32_t OrderKey(float value);
float FromOrderKey(int32_t key);

// Loops over fp32 alone.
struct PlainLoops {
  // [rows, columns] of 32-bit words to [columns, rows].
  void (*transpose)(const uint32_t* in, int64_t in_stride, int64_t rows, int64_t columns,
                    uint32_t* out, int64_t out_stride);
  // Keys (OrderKey) of the scores above `above`, and the numbers of their heads, ascending; how
  // many there are. The score is z·weight or z (no `weights`), of |z| if `absolute`. `keys` and
  // `heads` have room for n + 16.
  int64_t (*collect_above)(const float* z, const float* weights, bool absolute, int64_t n,
                           int32_t above, int32_t* keys, int32_t* heads);
  // a = exp(scores·scale − log_sum_exp).
  void (*pattern_row)(const float* scores, int64_t n, float scale, float log_sum_exp, float* a);
  // out = factor · in.
  void (*scale_row)(const float* in, int64_t n, float factor, float* out);
  void (*add_scalar)(float* row, int64_t n, float value);
  // y += weight · x.
  void (*axpy)(float weight, const float* x, int64_t n, float* y);
  // Rope of a head at one position in place; `cos` and `sin` are that position's row of RopeTables.
  // direction −1 turns back.
  void (*rotate_halves)(float* row, const float* cos, const float* sin, int64_t rotary_dim,
                        float direction);
  void (*rotate_pairs)(float* row, const float* cos, const float* sin, int64_t rotary_dim,
                       float direction);
  // row · gain / sqrt(mean(row²) + epsilon) in place, and its gradient: `gradient` of the result
  // becomes that of `raw`, the row before; the gain's is added to.
  void (*norm_row)(float* row, const float* gain, int64_t n, float epsilon);
  void (*norm_gradient_row)(const float* raw, const float* gain, int64_t n, float epsilon,
                            float* gradient, float* gain_gradient);
  double (*sum)(const float* x, int64_t n);
  AdamSums (*adam)(const AdamConstants& constants, int64_t n, const float* gradient, float* mean,
                   float* variance, float* parameter);
  // Σ x² in double precision.
  double (*sum_of_squares)(const float* x, int64_t n);
};

// Loops with working type T.
template <typename T>
struct Loops {
  void (*convert)(const float* in, int64_t n, T* out);
  // Two rows of fp32 to interleaved T, or a plain copy where T does not interleave (row1 unused).
  void (*interleave_floats)(const float* row0, const float* row1, int64_t n, T* out);
  // The same from rows of T.
  void (*interleave)(const T* row0, const T* row1, int64_t n, T* out);
  // p = exp(scale·scores − maximum), not divided by its sum, zero from n to padded.
  SoftmaxSums (*softmax_row)(const float* scores, int64_t n, float scale, T* p, int64_t padded);
  // y += Σ_j weights[j] · base[rows[j]·stride ..], in the order of j.
  void (*gather_sum)(const T* base, int64_t stride, const int32_t* rows, const float* weights,
                     int64_t count, int64_t n, float* y);
  // out[j] = factor · ⟨a, base[rows[j]·stride ..]⟩.
  void (*gather_dots)(const T* base, int64_t stride, const int32_t* rows, int64_t count,
                      const float* a, int64_t n, float factor, float* out);
  // ds = a ∘ (da − ⟨a, da⟩) · scale, zero from n to padded.
  void (*softmax_gradient_row)(const float* a, const float* da, int64_t n, float scale, T* ds,
                               int64_t padded);
  // e = reconstruction − target; gradient = factor·e in T and added to `sum`. Σ e².
  double (*error_row)(const float* reconstruction, const float* target, int64_t n, float factor,
                      float* error, T* gradient, float* sum);
  // C [m, n] = A B, added to C if `accumulate`; n ≤ kPanel, B one panel.
  void (*multiply_panel)(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* panel,
                         float* c, int64_t ldc, bool accumulate);
};

// Whether this machine runs `level`.
bool IsSupported(Level level);
// The highest supported.
Level BestLevel();
const char* LevelName(Level level);

const PlainLoops& PlainLoopsFor(Level level);
template <typename T>
const Loops<T>& LoopsFor(Level level);

}  // namespace lorsa::kernels

#endif  // LORSA_TRAINER_KERNELS_LOOPS_H_

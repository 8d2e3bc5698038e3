// Sizes and memory of a step of the fast path. Knows nothing of torch, so that what a step takes
// can be told without it. Letters as in lorsa_config.h and reference_lorsa.cc, T tokens; a p after
// a letter: padded (Sp, Tp = B·Sp, dp, Dp). "Panels" and strides: trainer/kernels/element.h.
#ifndef LORSA_TRAINER_LORSA_FAST_BUFFERS_H_
#define LORSA_TRAINER_LORSA_FAST_BUFFERS_H_

#include <cstdint>
#include <vector>

#include "trainer/config/lorsa_config.h"
#include "trainer/kernels/buffer.h"
#include "trainer/kernels/element.h"

namespace lorsa::trainer {

// Rows of queries that attention works on at a time.
inline constexpr int64_t kQueryBlock = 128;
// Tokens, and heads, of one task where these are independent of each other.
inline constexpr int64_t kTokenBlock = 32;
inline constexpr int64_t kHeadBlock = 128;

// What a step needs memory for besides its sizes.
struct StepDemand {
  bool gradients = false;
  int64_t top_k = 0;
  int64_t aux_top_k = 0;  // 0: no AuxLoss
};

struct StepSizes {
  StepSizes(const LorsaConfig& config, int64_t sequences, int64_t positions);

  int64_t B, S, T, d, H, G, D, R;
  int64_t Sp, Tp, dp, Dp;
  bool qk_norm;
};

inline int64_t TokenBlocks(const StepSizes& sizes) {
  return (sizes.T + kTokenBlock - 1) / kTokenBlock;
}

// Heads kept per token, [T, capacity] with `counts` [T] in use, in order of their number.
struct KeptHeads {
  int64_t capacity = 0;
  kernels::Buffer<int32_t> counts, heads;
  kernels::Buffer<float> values;     // z
  kernels::Buffer<float> gradients;  // of the loss, by z
};

// The same the other way round: the tokens at which head i was kept lie from offsets[i] to
// offsets[i + 1], in order.
struct TokensOfHeads {
  std::vector<int64_t> offsets;  // [H + 1]
  kernels::Buffer<int32_t> tokens;
  kernels::Buffer<float> values;
};

// What one thread needs for one task.
template <typename T>
struct ThreadScratch {
  // Dense products.
  kernels::Buffer<float> products;
  // Attention.
  kernels::Buffer<float> scores, score_gradient, z, q_gradient, k_gradient, v_gradient,
      keys_gradient;
  kernels::Buffer<T> pattern, pattern_panels, k_depth_panels, k_panels, v_panels, q_rows, q_panels,
      q_transposed, rows;
  kernels::Buffer<int32_t> queries;
  // Selection and decode.
  kernels::Buffer<int32_t> keys, heads, ranked;
  kernels::Buffer<float> row, error, error_sum;
};

// What a step fills and the next one reuses.
template <typename T>
struct StepBuffers {
  // Makes every buffer large enough for a step on `thread_count` threads. Throws std::bad_alloc.
  void Reserve(const StepSizes& sizes, const StepDemand& demand, int thread_count);

  std::vector<ThreadScratch<T>> threads;

  // Working copies of the weights.
  kernels::Buffer<T> w_q, w_k;       // [G] right factors [d, D]
  kernels::Buffer<T> w_v, w_o;       // [H, d], rows of RowStride(dp)
  kernels::Buffer<float> w_o_norms;  // [H]

  // The input in the four forms in which it enters products.
  kernels::Buffer<T> x_rows;          // [Tp, d], rows of RowStride(dp)
  kernels::Buffer<T> x_depth_panels;  // [B] right factors [d, S]
  kernels::Buffer<T> x_token_panels;  // right factor [T, d]
  kernels::Buffer<T> x_transposed;    // [d, Tp], rows of RowStride(Tp)

  kernels::Buffer<T> q, k;          // [G, Tp, Dp] after norm and rope
  kernels::Buffer<T> q_raw, k_raw;  // [G, Tp, Dp] before; only with QK norm
  kernels::Buffer<T> v;             // [H, Tp], rows of RowStride(Tp)
  kernels::Buffer<float> z_TH;
  kernels::Buffer<float> log_sum_exp_BGS;

  KeptHeads kept, aux_kept;
  TokensOfHeads kept_tokens, aux_tokens;
  kernels::Buffer<T> output_gradient_Td, aux_output_gradient_Td;  // rows of RowStride(dp)
  kernels::Buffer<double> losses_T, aux_losses_T;                 // ‖error‖² per token

  kernels::Buffer<T> q_gradient, k_gradient;  // [G] right factors [Tp, D]
  kernels::Buffer<T> v_gradient;              // as v
  // Sums of one task each, added up in order at the end.
  kernels::Buffer<float> b_q_parts, b_k_parts, ln_q_parts, ln_k_parts;  // [B, G, Dp]
  kernels::Buffer<float> b_v_parts;                                     // [B, H]
  kernels::Buffer<float> b_d_parts;                                     // [blocks of tokens, dp]
};

// Bytes that Reserve takes in all for one step.
template <typename T>
int64_t StepBufferBytes(const StepSizes& sizes, const StepDemand& demand, int thread_count);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_FAST_BUFFERS_H_

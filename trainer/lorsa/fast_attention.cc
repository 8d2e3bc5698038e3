#include "trainer/lorsa/fast_attention.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>

#include "trainer/kernels/block_gemm.h"
#include "trainer/kernels/tasks.h"

namespace lorsa::trainer {
namespace {

using kernels::kDepthUnit;
using kernels::kInterleave;
using kernels::kPanel;
using kernels::Multiply;
using kernels::PackRows;
using kernels::PackTransposed;
using kernels::Panels;
using kernels::RoundUp;
using kernels::RowStride;
using kernels::RunTasks;

template <typename V>
void SetZero(V* data, int64_t n) {
  std::memset(data, 0, n * sizeof(V));
}

// What forward and backward share: one QK head in one sequence.
template <typename T>
struct HeadTask {
  HeadTask(const StepSizes& sizes, Workspace<T>& workspace, int64_t task, int thread)
      : s(sizes),
        work(workspace),
        scratch(workspace.threads[thread]),
        b(task % sizes.B),
        g(task / sizes.B),
        scale(static_cast<float>(1 / workspace.config.attn_scale)),
        q(workspace.q.data() + (g * s.Tp + b * s.Sp) * s.Dp),
        k(workspace.k.data() + (g * s.Tp + b * s.Sp) * s.Dp),
        v(workspace.v.data() + g * s.R * RowStride<T>(s.Tp) + b * s.Sp),
        log_sum_exp(workspace.log_sum_exp_BGS.data() + (b * s.G + g) * s.S),
        scores_stride(RowStride<float>(s.Sp)),
        pattern_stride(RowStride<T>(s.Sp)) {}

  // kᵀ as right factor of q kᵀ.
  void PackKeysForScores() {
    T* panels = scratch.k_depth_panels.data();
    PackTransposed(work.loops, k, s.Dp, s.Sp, s.Dp, panels, s.Dp * kPanel);
  }

  // Scores of `rows` queries with the first `keys` keys.
  float* Scores(const T* queries, int64_t rows, int64_t keys) {
    float* scores = scratch.scores.data();
    Multiply(rows, keys, s.Dp, queries, s.Dp, scratch.k_depth_panels.data(), s.Dp * kPanel, scores,
             scores_stride, /*accumulate=*/false);
    return scores;
  }

  const StepSizes& s;
  Workspace<T>& work;
  ThreadScratch<T>& scratch;
  const int64_t b, g;
  const float scale;
  const T* const q;          // [Sp, Dp]
  const T* const k;          // [Sp, Dp]
  const T* const v;          // [R] rows of RowStride(Tp), of which Sp positions are this sequence's
  float* const log_sum_exp;  // [S]
  const int64_t scores_stride, pattern_stride;
};

template <typename T>
class ForwardTask : HeadTask<T> {
  using Base = HeadTask<T>;
  using Base::b, Base::g, Base::s, Base::work, Base::scratch, Base::scale;

 public:
  using Base::Base;

  void Run(int64_t queries) {
    this->PackKeysForScores();
    v_panels_ = scratch.v_panels.data();
    PackTransposed(work.loops, this->v, RowStride<T>(s.Tp), s.R, s.Sp, v_panels_, s.Sp * kPanel);
    for (int64_t t = 0; t < queries; t += kQueryBlock) {
      Block(t, std::min(kQueryBlock, queries - t));
    }
  }

 private:
  void Block(int64_t first, int64_t rows) {
    const int64_t keys = RoundUp(first + rows, kDepthUnit), z_stride = RowStride<float>(s.R);
    const float* scores = this->Scores(this->q + first * s.Dp, rows, keys);
    T* pattern = scratch.pattern.data();
    float inverse_sums[kQueryBlock];
    for (int64_t r = 0; r < rows; ++r) {
      const kernels::SoftmaxSums sums =
          work.loops.typed.softmax_row(scores + r * this->scores_stride, first + r + 1, scale,
                                       pattern + r * this->pattern_stride, keys);
      this->log_sum_exp[first + r] = sums.log_sum_exp;
      inverse_sums[r] = sums.inverse_sum;
    }
    float* z = scratch.z.data();
    Multiply(rows, s.R, keys, pattern, this->pattern_stride, v_panels_, s.Sp * kPanel, z, z_stride,
             /*accumulate=*/false);
    for (int64_t r = 0; r < rows; ++r) {
      work.loops.plain.scale_row(z + r * z_stride, s.R, inverse_sums[r],
                                 work.z_TH.data() + (b * s.S + first + r) * s.H + g * s.R);
    }
  }

  T* v_panels_ = nullptr;
};

// The kept heads of one token that use one QK head.
struct Entries {
  const int32_t* heads;
  const float* gradients;
  int64_t count;
};

Entries EntriesOf(KeptHeads& kept, int64_t token, int64_t first_head, int64_t end_head) {
  const int32_t* heads = kept.heads.data() + token * kept.capacity;
  const int32_t* end = heads + kept.counts.data()[token];
  const int32_t* from = std::lower_bound(heads, end, first_head);
  const int32_t* to = std::lower_bound(from, end, end_head);
  return {from, kept.gradients.data() + (from - kept.heads.data()), to - from};
}

template <typename T>
class BackwardTask : HeadTask<T> {
  using Base = HeadTask<T>;
  using Base::b, Base::g, Base::s, Base::work, Base::scratch, Base::scale;

 public:
  using Base::Base;

  void Run(const LorsaParameters& parameters) {
    FindQueries();
    q_gradient_ = Cleared(scratch.q_gradient, s.Sp * s.Dp);
    k_gradient_ = Cleared(scratch.k_gradient, s.Dp * this->scores_stride);
    v_gradient_ = Cleared(scratch.v_gradient, s.R * this->scores_stride);
    if (query_count_ > 0) {
      this->PackKeysForScores();
      k_panels_ = scratch.k_panels.data();
      PackRows(work.loops, this->k, s.Dp, s.Sp, s.Dp, k_panels_, s.Sp * kPanel);
    }
    for (int64_t i = 0; i < query_count_; i += kQueryBlock) {
      Block(i, std::min(kQueryBlock, query_count_ - i));
    }
    FinishValues();
    FinishHead(q_gradient_, parameters.ln_q, work.q_raw, work.q_gradient, work.b_q_parts,
               work.ln_q_parts);
    FinishHead(KeyGradientRows(), parameters.ln_k, work.k_raw, work.k_gradient, work.b_k_parts,
               work.ln_k_parts);
  }

 private:
  static float* Cleared(kernels::Buffer<float>& buffer, int64_t n) {
    float* data = buffer.data();
    SetZero(data, n);
    return data;
  }

  // Positions at which a head of this group was kept; only these have a gradient.
  void FindQueries() {
    query_count_ = 0;
    for (int64_t t = 0; t < s.S; ++t) {
      bool any = false;
      ForEachEntries(t, [&](const Entries& entries) { any |= entries.count > 0; });
      scratch.queries.data()[query_count_] = static_cast<int32_t>(t);
      query_count_ += any;
    }
  }

  template <typename Visit>
  void ForEachEntries(int64_t t, Visit visit) {
    visit(EntriesOf(work.kept, b * s.S + t, g * s.R, (g + 1) * s.R));
    if (work.aux_kept.capacity > 0) {
      visit(EntriesOf(work.aux_kept, b * s.S + t, g * s.R, (g + 1) * s.R));
    }
  }

  // The queries numbered first to first + rows among those that have a gradient.
  void Block(int64_t first, int64_t rows) {
    const int32_t* positions = scratch.queries.data() + first;
    const int64_t keys = RoundUp(positions[rows - 1] + 1, kDepthUnit);
    const int64_t depth = RoundUp(rows, kDepthUnit);
    T* queries = scratch.q_rows.data();
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(queries + r * s.Dp, this->q + positions[r] * s.Dp, s.Dp * sizeof(T));
    }
    SetZero(queries + rows * s.Dp, (depth - rows) * s.Dp);
    float* scores = this->Scores(queries, rows, keys);
    T* gradients = scratch.pattern.data();
    for (int64_t r = 0; r < rows; ++r) {
      Query(positions[r], keys, scores + r * this->scores_stride,
            gradients + r * this->pattern_stride);
    }
    for (int64_t r = rows; r < depth; ++r) SetZero(gradients + r * this->pattern_stride, keys);
    AddQueryGradients(positions, rows, keys, gradients);
    AddKeyGradients(queries, depth, keys, gradients);
  }

  // One row: from its scores to the gradient of its scores, and its share of that of v.
  void Query(int64_t t, int64_t keys, float* scores, T* score_gradients) {
    const auto& loops = work.loops;
    loops.plain.pattern_row(scores, t + 1, scale, this->log_sum_exp[t], scores);
    const float* pattern = scores;
    float* pattern_gradient = Cleared(scratch.score_gradient, t + 1);
    ForEachEntries(t, [&](const Entries& entries) {
      const T* values = this->v - g * s.R * RowStride<T>(s.Tp);
      loops.typed.gather_sum(values, RowStride<T>(s.Tp), entries.heads, entries.gradients,
                             entries.count, t + 1, pattern_gradient);
      for (int64_t j = 0; j < entries.count; ++j) {
        loops.plain.axpy(entries.gradients[j], pattern, t + 1,
                         v_gradient_ + (entries.heads[j] - g * s.R) * this->scores_stride);
      }
    });
    loops.typed.softmax_gradient_row(pattern, pattern_gradient, t + 1, scale, score_gradients,
                                     keys);
  }

  // dQ = dS K.
  void AddQueryGradients(const int32_t* positions, int64_t rows, int64_t keys, const T* gradients) {
    float* products = scratch.products.data();
    Multiply(rows, s.Dp, keys, gradients, this->pattern_stride, k_panels_, s.Sp * kPanel, products,
             s.Dp, /*accumulate=*/false);
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(q_gradient_ + positions[r] * s.Dp, products + r * s.Dp, s.Dp * sizeof(float));
    }
  }

  // dKᵀ += Qᵀ dS.
  void AddKeyGradients(const T* queries, int64_t depth, int64_t keys, const T* gradients) {
    T* gradient_panels = scratch.pattern_panels.data();
    PackRows(work.loops, gradients, this->pattern_stride, depth, keys, gradient_panels,
             kQueryBlock * kPanel);
    T* query_panels = scratch.q_panels.data();
    PackRows(work.loops, queries, s.Dp, depth, s.Dp, query_panels, kQueryBlock * kPanel);
    constexpr int64_t kStride = RowStride<T>(kQueryBlock);
    T* transposed = scratch.q_transposed.data();
    kernels::UnpackTransposed(work.loops, query_panels, kQueryBlock * kPanel, depth, s.Dp,
                              transposed, kStride);
    Multiply(s.Dp, keys, depth, transposed, kStride, gradient_panels, kQueryBlock * kPanel,
             k_gradient_, this->scores_stride, /*accumulate=*/true);
  }

  float* KeyGradientRows() {
    float* rows = scratch.keys_gradient.data();
    work.loops.plain.transpose(reinterpret_cast<const uint32_t*>(k_gradient_), this->scores_stride,
                               s.Dp, s.Sp, reinterpret_cast<uint32_t*>(rows), s.Dp);
    return rows;
  }

  void FinishValues() {
    for (int64_t i = 0; i < s.R; ++i) {
      const float* row = v_gradient_ + i * this->scores_stride;
      const int64_t head = g * s.R + i;
      work.b_v_parts.data()[b * s.H + head] = static_cast<float>(work.loops.plain.sum(row, s.Sp));
      work.loops.typed.convert(row, s.Sp,
                               work.v_gradient.data() + head * RowStride<T>(s.Tp) + b * s.Sp);
    }
  }

  // Back through rope and norm, then into the right factor of the weight's gradient.
  void FinishHead(float* gradient_SD, const at::Tensor& gain, kernels::Buffer<T>& raw,
                  kernels::Buffer<T>& panels, kernels::Buffer<float>& bias_parts,
                  kernels::Buffer<float>& gain_parts) {
    float* bias_sum = bias_parts.data() + (b * s.G + g) * s.Dp;
    SetZero(bias_sum, s.Dp);
    float* gain_sum = nullptr;
    if (work.config.qk_norm) {
      gain_sum = gain_parts.data() + (b * s.G + g) * s.Dp;
      SetZero(gain_sum, s.Dp);
    }
    T* rows = scratch.rows.data();
    for (int64_t t = 0; t < s.S; ++t) {
      float* row = gradient_SD + t * s.Dp;
      if (work.config.rope) RotateBack(row, t);
      if (work.config.qk_norm) {
        NormBack(row, raw.data() + (g * s.Tp + b * s.Sp + t) * s.Dp,
                 gain.template data_ptr<float>() + g * s.D, gain_sum);
      }
      work.loops.plain.axpy(1, row, s.D, bias_sum);
      work.loops.typed.convert(row, s.Dp, rows + t * s.Dp);
    }
    SetZero(rows + s.S * s.Dp, (s.Sp - s.S) * s.Dp);
    const int64_t panel = s.Tp * kPanel;
    PackRows(work.loops, rows, s.Dp, s.Sp, s.Dp,
             panels.data() + g * Panels(s.D) * panel + b * s.Sp * kPanel, panel);
  }

  void RotateBack(float* row, int64_t t) {
    const int64_t rotary_dim = work.config.rope->rotary_dim;
    const auto rotate = work.config.rope->adjacent_pairs ? work.loops.plain.rotate_pairs
                                                         : work.loops.plain.rotate_halves;
    rotate(row, work.rope.cos.template data_ptr<float>() + t * rotary_dim,
           work.rope.sin.template data_ptr<float>() + t * rotary_dim, rotary_dim, -1);
  }

  void NormBack(float* row, const T* raw, const float* gain, float* gain_sum) {
    float* raw_row = scratch.row.data();
    SetZero(raw_row, s.Dp);
    const int32_t first = 0;
    const float one = 1;
    work.loops.typed.gather_sum(raw, s.Dp, &first, &one, 1, s.Dp, raw_row);
    work.loops.plain.norm_gradient_row(raw_row, gain, s.D, work.config.qk_norm->epsilon, row,
                                       gain_sum);
  }

  int64_t query_count_ = 0;
  float *q_gradient_ = nullptr, *k_gradient_ = nullptr, *v_gradient_ = nullptr;
  T* k_panels_ = nullptr;
};

}  // namespace

template <typename T>
void AttendForward(const StepSizes& s, const std::vector<int64_t>& queries, Workspace<T>& work) {
  RunTasks(s.B * s.G, [&](int64_t task, int thread) {
    ForwardTask<T>(s, work, task, thread).Run(queries[task % s.B]);
  });
}

template <typename T>
void AttendBackward(const StepSizes& s, const LorsaParameters& parameters, Workspace<T>& work) {
  RunTasks(s.B * s.G, [&](int64_t task, int thread) {
    BackwardTask<T>(s, work, task, thread).Run(parameters);
  });
}

#define LORSA_INSTANTIATE(T)                                                                    \
  template void AttendForward<T>(const StepSizes&, const std::vector<int64_t>&, Workspace<T>&); \
  template void AttendBackward<T>(const StepSizes&, const LorsaParameters&, Workspace<T>&);
LORSA_INSTANTIATE(float)
LORSA_INSTANTIATE(kernels::Bf16)
#undef LORSA_INSTANTIATE

}  // namespace lorsa::trainer

#include "trainer/lorsa/fast_projection.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trainer/kernels/block_gemm.h"
#include "trainer/kernels/tasks.h"

namespace lorsa::trainer {
namespace {

using kernels::kInterleave;
using kernels::kPanel;
using kernels::Multiply;
using kernels::Panels;
using kernels::RowStride;
using kernels::RunTasks;

// Tokens of one product when gradients are summed over them: what it reads stays in the cache.
constexpr int64_t kDepthChunk = 512;

// Rows of fp32 [rows, columns] in the working type, each zero from `columns` to `stride`.
template <typename T>
void ConvertRows(const kernels::LoopSet<T>& loops, const float* in, int64_t rows, int64_t columns,
                 T* out, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i) {
    loops.typed.convert(in + i * columns, columns, out + i * stride);
    std::memset(out + i * stride + columns, 0, (stride - columns) * sizeof(T));
  }
}

template <typename T>
void PackQkWeight(const StepSizes& s, const float* w_dD, int64_t head, kernels::LoopSet<T> loops,
                  kernels::Buffer<T>& out) {
  const int64_t panel = s.dp * kPanel;
  kernels::PackFloats(loops, w_dD + head * s.d * s.D, s.D, s.d, s.D, s.dp,
                      out.data() + head * Panels(s.D) * panel, panel);
}

// Bias, norm and rope of the rows of one head of q or k in one sequence.
template <typename T>
struct HeadRows {
  const StepSizes& sizes;
  Workspace<T>& work;
  const float* bias;  // [D]
  const float* gain;  // [D] if there is QK norm
  T* raw;             // [Sp, Dp] if there is QK norm
  T* out;             // [Sp, Dp]

  void Finish(float* products_SD) const {
    const StepSizes& s = sizes;
    const auto& loops = work.loops;
    for (int64_t t = 0; t < s.Sp; ++t) {
      float* row = products_SD + t * s.Dp;
      loops.plain.axpy(1, bias, s.D, row);
      if (work.config.qk_norm) {
        Convert(row, raw + t * s.Dp);
        loops.plain.norm_row(row, gain, s.D, work.config.qk_norm->epsilon);
      }
      if (work.config.rope && t < s.S) Rotate(row, t);
      Convert(row, out + t * s.Dp);
    }
  }

 private:
  void Convert(const float* row, T* to) const {
    work.loops.typed.convert(row, sizes.D, to);
    std::memset(to + sizes.D, 0, (sizes.Dp - sizes.D) * sizeof(T));
  }

  void Rotate(float* row, int64_t t) const {
    const int64_t rotary_dim = work.config.rope->rotary_dim;
    const auto rotate = work.config.rope->adjacent_pairs ? work.loops.plain.rotate_pairs
                                                         : work.loops.plain.rotate_halves;
    rotate(row, work.rope.cos.template data_ptr<float>() + t * rotary_dim,
           work.rope.sin.template data_ptr<float>() + t * rotary_dim, rotary_dim, 1);
  }
};

// Σ over the B rows of `parts` [B, outer, stride], of which `count` of each stride matter.
void SumParts(const float* parts, int64_t B, int64_t outer, int64_t stride, int64_t count,
              float* out) {
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < count; ++j) {
      float sum = 0;
      for (int64_t b = 0; b < B; ++b) sum += parts[(b * outer + i) * stride + j];
      out[i * count + j] = sum;
    }
  }
}

// dW [d, D] = xᵀ · gradient of one head of q or k.
template <typename T>
void QkWeightGradient(const StepSizes& s, Workspace<T>& work, const T* gradient_panels,
                      float* out_dD) {
  Multiply(s.d, s.D, s.Tp, work.x_transposed.data(), RowStride<T>(s.Tp), gradient_panels,
           s.Tp * kPanel, out_dD, s.D, /*accumulate=*/false);
}

// Rows of dW_V = gradient of v · x.
template <typename T>
void ValueWeightGradient(const StepSizes& s, Workspace<T>& work, int64_t first, float* w_v_Hd) {
  const int64_t rows = std::min(kHeadBlock, s.H - first), stride = RowStride<T>(s.Tp);
  for (int64_t t = 0; t < s.Tp; t += kDepthChunk) {
    Multiply(rows, s.d, std::min(kDepthChunk, s.Tp - t),
             work.v_gradient.data() + first * stride + t, stride,
             work.x_token_panels.data() + t * kPanel, s.Tp * kPanel, w_v_Hd + first * s.d, s.d,
             /*accumulate=*/t > 0);
  }
}

}  // namespace

template <typename T>
void PackWeights(const StepSizes& s, const LorsaParameters& p, Workspace<T>& work) {
  const int64_t stride = RowStride<T>(s.dp);
  const float *w_q = p.w_q.data_ptr<float>(), *w_k = p.w_k.data_ptr<float>();
  const float *w_v = p.w_v.data_ptr<float>(), *w_o = p.w_o.data_ptr<float>();
  const int64_t blocks = (s.H + kHeadBlock - 1) / kHeadBlock;
  RunTasks(s.G + blocks, [&](int64_t task, int) {
    if (task < s.G) {
      PackQkWeight(s, w_q, task, work.loops, work.w_q);
      PackQkWeight(s, w_k, task, work.loops, work.w_k);
      return;
    }
    const int64_t first = (task - s.G) * kHeadBlock, rows = std::min(kHeadBlock, s.H - first);
    const int64_t from = first * s.d, to = first * stride;
    ConvertRows(work.loops, w_v + from, rows, s.d, work.w_v.data() + to, stride);
    ConvertRows(work.loops, w_o + from, rows, s.d, work.w_o.data() + to, stride);
    for (int64_t i = first; i < first + rows; ++i) {
      const double squares = work.loops.plain.sum_of_squares(w_o + i * s.d, s.d);
      work.w_o_norms.data()[i] = static_cast<float>(std::sqrt(squares));
    }
  });
}

template <typename T>
void PackInput(const StepSizes& s, const at::Tensor& x_BSd, bool for_gradients,
               Workspace<T>& work) {
  const int64_t stride = RowStride<T>(s.dp), t_stride = RowStride<T>(s.Tp);
  const int64_t sequence_panels = Panels(s.Sp) * s.dp * kPanel, token_panel = s.Tp * kPanel;
  const float* x = x_BSd.data_ptr<float>();
  RunTasks(s.B, [&](int64_t b, int) {
    T* rows = work.x_rows.data() + b * s.Sp * stride;
    ConvertRows(work.loops, x + b * s.S * s.d, s.S, s.d, rows, stride);
    std::memset(rows + s.S * stride, 0, (s.Sp - s.S) * stride * sizeof(T));
    kernels::PackTransposed(work.loops, rows, stride, s.Sp, s.dp,
                            work.x_depth_panels.data() + b * sequence_panels, s.dp * kPanel);
    if (!for_gradients) return;
    T* token_panels = work.x_token_panels.data() + b * s.Sp * kPanel;
    kernels::PackRows(work.loops, rows, stride, s.Sp, s.dp, token_panels, token_panel);
    kernels::UnpackTransposed(work.loops, token_panels, token_panel, s.Sp, s.dp,
                              work.x_transposed.data() + b * s.Sp, t_stride);
  });
}

template <typename T>
void ProjectQueriesAndKeys(const StepSizes& s, const LorsaParameters& p, Workspace<T>& work) {
  const int64_t stride = RowStride<T>(s.dp);
  RunTasks(2 * s.B * s.G, [&](int64_t task, int thread) {
    const bool is_q = task % 2 == 0;
    const int64_t b = task / 2 % s.B, g = task / 2 / s.B, at = (g * s.Tp + b * s.Sp) * s.Dp;
    float* products = work.threads[thread].products.data();
    const T* weight = (is_q ? work.w_q : work.w_k).data() + g * Panels(s.D) * s.dp * kPanel;
    Multiply(s.Sp, s.D, s.dp, work.x_rows.data() + b * s.Sp * stride, stride, weight, s.dp * kPanel,
             products, s.Dp, /*accumulate=*/false);
    const at::Tensor& bias = is_q ? p.b_q : p.b_k;
    HeadRows<T> rows{.sizes = s,
                     .work = work,
                     .bias = bias.data_ptr<float>() + g * s.D,
                     .gain = nullptr,
                     .raw = nullptr,
                     .out = (is_q ? work.q : work.k).data() + at};
    if (work.config.qk_norm) {
      rows.gain = (is_q ? p.ln_q : p.ln_k).data_ptr<float>() + g * s.D;
      rows.raw = (is_q ? work.q_raw : work.k_raw).data() + at;
    }
    rows.Finish(products);
  });
}

template <typename T>
void ProjectValues(const StepSizes& s, const LorsaParameters& p, Workspace<T>& work) {
  const int64_t stride = RowStride<T>(s.dp), t_stride = RowStride<T>(s.Tp);
  const int64_t blocks = (s.H + kHeadBlock - 1) / kHeadBlock;
  const float* bias = p.b_v.data_ptr<float>();
  RunTasks(blocks * s.B, [&](int64_t task, int thread) {
    const int64_t b = task % s.B, first = task / s.B * kHeadBlock;
    const int64_t rows = std::min(kHeadBlock, s.H - first);
    float* products = work.threads[thread].products.data();
    Multiply(rows, s.Sp, s.dp, work.w_v.data() + first * stride, stride,
             work.x_depth_panels.data() + b * Panels(s.Sp) * s.dp * kPanel, s.dp * kPanel, products,
             s.Sp, /*accumulate=*/false);
    for (int64_t i = 0; i < rows; ++i) {
      work.loops.plain.add_scalar(products + i * s.Sp, s.Sp, bias[first + i]);
      work.loops.typed.convert(products + i * s.Sp, s.Sp,
                               work.v.data() + (first + i) * t_stride + b * s.Sp);
    }
  });
}

template <typename T>
void ProjectionGradients(const StepSizes& s, Workspace<T>& work, LorsaParameters& out) {
  const int64_t blocks = (s.H + kHeadBlock - 1) / kHeadBlock;
  const int64_t head_panels = Panels(s.D) * s.Tp * kPanel;
  float *w_q = out.w_q.data_ptr<float>(), *w_k = out.w_k.data_ptr<float>();
  float* w_v = out.w_v.data_ptr<float>();
  RunTasks(2 * s.G + blocks, [&](int64_t task, int) {
    if (task >= 2 * s.G) {
      ValueWeightGradient(s, work, (task - 2 * s.G) * kHeadBlock, w_v);
      return;
    }
    const int64_t g = task / 2;
    QkWeightGradient(s, work,
                     (task % 2 == 0 ? work.q_gradient : work.k_gradient).data() + g * head_panels,
                     (task % 2 == 0 ? w_q : w_k) + g * s.d * s.D);
  });
  const auto sum_heads = [&](kernels::Buffer<float>& parts, at::Tensor& sums) {
    SumParts(parts.data(), s.B, s.G, s.Dp, s.D, sums.data_ptr<float>());
  };
  sum_heads(work.b_q_parts, out.b_q);
  sum_heads(work.b_k_parts, out.b_k);
  if (work.config.qk_norm) {
    sum_heads(work.ln_q_parts, out.ln_q);
    sum_heads(work.ln_k_parts, out.ln_k);
  }
  SumParts(work.b_v_parts.data(), s.B, 1, s.H, s.H, out.b_v.data_ptr<float>());
}

#define LORSA_INSTANTIATE(T)                                                                       \
  template void PackWeights<T>(const StepSizes&, const LorsaParameters&, Workspace<T>&);           \
  template void PackInput<T>(const StepSizes&, const at::Tensor&, bool, Workspace<T>&);            \
  template void ProjectQueriesAndKeys<T>(const StepSizes&, const LorsaParameters&, Workspace<T>&); \
  template void ProjectValues<T>(const StepSizes&, const LorsaParameters&, Workspace<T>&);         \
  template void ProjectionGradients<T>(const StepSizes&, Workspace<T>&, LorsaParameters&);
LORSA_INSTANTIATE(float)
LORSA_INSTANTIATE(kernels::Bf16)
#undef LORSA_INSTANTIATE

}  // namespace lorsa::trainer

#include "trainer/lorsa/fast_buffers.h"

#include <algorithm>

namespace lorsa::trainer {

using kernels::kDepthUnit;
using kernels::kPanel;
using kernels::Panels;
using kernels::RoundUp;
using kernels::RowStride;

StepSizes::StepSizes(const LorsaConfig& config, int64_t sequences, int64_t positions)
    : B(sequences),
      S(positions),
      T(sequences * positions),
      d(config.d_model),
      H(config.n_ov_heads),
      G(config.n_qk_heads),
      D(config.d_qk),
      R(config.n_ov_heads / config.n_qk_heads),
      Sp(RoundUp(positions, kDepthUnit)),
      Tp(sequences * Sp),
      dp(RoundUp(config.d_model, kDepthUnit)),
      Dp(RoundUp(config.d_qk, kDepthUnit)),
      qk_norm(config.qk_norm.has_value()) {}

namespace {

// The visitors below call visit(buffer, elements) for each buffer that a step uses.

template <typename Visit>
void VisitKept(const StepSizes& s, int64_t capacity, KeptHeads& kept, TokensOfHeads& tokens,
               Visit visit) {
  visit(kept.counts, s.T);
  visit(kept.heads, s.T * capacity);
  visit(kept.values, s.T * capacity);
  visit(kept.gradients, s.T * capacity);
  visit(tokens.tokens, s.T * capacity);
  visit(tokens.values, s.T * capacity);
}

template <typename T, typename Visit>
void VisitScratch(const StepSizes& s, const StepDemand& demand, ThreadScratch<T>& t, Visit visit) {
  const int64_t scores_stride = RowStride<float>(s.Sp), pattern_stride = RowStride<T>(s.Sp);
  visit(t.products, std::max(s.Sp * std::max(s.Dp, kHeadBlock), kQueryBlock * s.Dp));
  visit(t.scores, kQueryBlock * scores_stride);
  visit(t.z, kQueryBlock * RowStride<float>(s.R));
  visit(t.pattern, kQueryBlock * pattern_stride);
  visit(t.k_depth_panels, Panels(s.Sp) * s.Dp * kPanel);
  visit(t.v_panels, Panels(s.R) * s.Sp * kPanel);
  for (auto* buffer : {&t.keys, &t.heads, &t.ranked}) visit(*buffer, s.H + 16);
  for (auto* buffer : {&t.row, &t.error, &t.error_sum}) visit(*buffer, std::max(s.dp, s.Dp));
  if (!demand.gradients) return;
  visit(t.score_gradient, s.Sp);
  visit(t.q_gradient, s.Sp * s.Dp);
  visit(t.k_gradient, s.Dp * scores_stride);
  visit(t.v_gradient, s.R * scores_stride);
  visit(t.keys_gradient, s.Sp * s.Dp);
  visit(t.pattern_panels, Panels(s.Sp) * kQueryBlock * kPanel);
  visit(t.k_panels, Panels(s.Dp) * s.Sp * kPanel);
  visit(t.q_rows, kQueryBlock * s.Dp);
  visit(t.q_panels, Panels(s.Dp) * kQueryBlock * kPanel);
  visit(t.q_transposed, s.Dp * RowStride<T>(kQueryBlock));
  visit(t.rows, s.Sp * s.Dp);
  visit(t.queries, s.S);
}

template <typename T, typename Visit>
void VisitForward(const StepSizes& s, const StepDemand& demand, StepBuffers<T>& w, Visit visit) {
  const int64_t stride = RowStride<T>(s.dp), heads = s.G * s.Tp * s.Dp;
  for (auto* buffer : {&w.w_q, &w.w_k}) visit(*buffer, s.G * Panels(s.D) * s.dp * kPanel);
  for (auto* buffer : {&w.w_v, &w.w_o}) visit(*buffer, s.H * stride);
  visit(w.w_o_norms, s.H);
  visit(w.x_rows, s.Tp * stride);
  visit(w.x_depth_panels, s.B * Panels(s.Sp) * s.dp * kPanel);
  for (auto* buffer : {&w.q, &w.k}) visit(*buffer, heads);
  if (s.qk_norm) {
    for (auto* buffer : {&w.q_raw, &w.k_raw}) visit(*buffer, heads);
  }
  visit(w.v, s.H * RowStride<T>(s.Tp));
  visit(w.z_TH, s.T * s.H);
  visit(w.log_sum_exp_BGS, s.B * s.G * s.S);
  VisitKept(s, demand.top_k, w.kept, w.kept_tokens, visit);
}

template <typename T, typename Visit>
void VisitGradients(const StepSizes& s, const StepDemand& demand, StepBuffers<T>& w, Visit visit) {
  const int64_t stride = RowStride<T>(s.dp), t_stride = RowStride<T>(s.Tp);
  visit(w.x_token_panels, Panels(s.dp) * s.Tp * kPanel);
  visit(w.x_transposed, s.dp * t_stride);
  visit(w.output_gradient_Td, s.T * stride);
  visit(w.losses_T, s.T);
  if (demand.aux_top_k > 0) {
    VisitKept(s, demand.aux_top_k, w.aux_kept, w.aux_tokens, visit);
    visit(w.aux_output_gradient_Td, s.T * stride);
    visit(w.aux_losses_T, s.T);
  }
  for (auto* buffer : {&w.q_gradient, &w.k_gradient}) {
    visit(*buffer, s.G * Panels(s.D) * s.Tp * kPanel);
  }
  visit(w.v_gradient, s.H * t_stride);
  for (auto* parts : {&w.b_q_parts, &w.b_k_parts, &w.ln_q_parts, &w.ln_k_parts}) {
    visit(*parts, s.B * s.G * s.Dp);
  }
  visit(w.b_v_parts, s.B * s.H);
  visit(w.b_d_parts, TokenBlocks(s) * s.dp);
}

template <typename T, typename Visit>
void VisitAll(const StepSizes& s, const StepDemand& demand, StepBuffers<T>& work, Visit visit) {
  VisitForward(s, demand, work, visit);
  if (demand.gradients) VisitGradients(s, demand, work, visit);
  for (ThreadScratch<T>& thread : work.threads) VisitScratch(s, demand, thread, visit);
}

}  // namespace

template <typename T>
void StepBuffers<T>::Reserve(const StepSizes& sizes, const StepDemand& demand, int thread_count) {
  threads.resize(std::max<size_t>(threads.size(), thread_count));
  kept.capacity = demand.top_k;
  aux_kept.capacity = demand.aux_top_k;
  VisitAll(sizes, demand, *this, [](auto& buffer, int64_t elements) { buffer.Reserve(elements); });
}

template <typename T>
int64_t StepBufferBytes(const StepSizes& sizes, const StepDemand& demand, int thread_count) {
  StepBuffers<T> unused;
  unused.threads.resize(thread_count);
  int64_t bytes = 0;
  VisitAll(sizes, demand, unused, [&](auto& buffer, int64_t elements) {
    bytes += static_cast<int64_t>(kernels::ReservedBytes(elements * sizeof(*buffer.data())));
  });
  return bytes;
}

template struct StepBuffers<float>;
template struct StepBuffers<kernels::Bf16>;
template int64_t StepBufferBytes<float>(const StepSizes&, const StepDemand&, int);
template int64_t StepBufferBytes<kernels::Bf16>(const StepSizes&, const StepDemand&, int);

}  // namespace lorsa::trainer

#include "trainer/train/dead_heads.h"

#include <ATen/ATen.h>

namespace lorsa::trainer {
namespace {

void CopyRows(const HeadRows& rows, LorsaParameters& out) {
  out.w_v.index_copy_(0, rows.heads, rows.w_v);
  out.b_v.index_copy_(0, rows.heads, rows.b_v);
  out.w_o.index_copy_(0, rows.heads, rows.w_o);
}

void RestartMoments(const at::Tensor& heads, const at::Tensor& live_rows, at::Tensor& mean,
                    at::Tensor& variance) {
  mean.index_fill_(0, heads, 0);
  if (live_rows.numel() == 0) {
    variance.index_fill_(0, heads, 0);
    return;
  }
  const at::Tensor typical = variance.index_select(0, live_rows).mean(0, /*keepdim=*/true);
  variance.index_copy_(0, heads, typical.expand_as(variance.index_select(0, heads)));
}

}  // namespace

at::Tensor DeadHeads(const TrainConfig& config, const TrainingState& state) {
  return state.tokens_since_fired >= config.dead_after_tokens();
}

void ReplaceHeads(const HeadRows& rows, const at::Tensor& live, TrainingState& state) {
  CopyRows(rows, state.parameters);
  if (state.averaged) CopyRows(rows, *state.averaged);
  const at::Tensor live_rows = live.nonzero().flatten();
  AdamState& adam = state.adam;
  RestartMoments(rows.heads, live_rows, adam.mean.w_v, adam.variance.w_v);
  RestartMoments(rows.heads, live_rows, adam.mean.b_v, adam.variance.b_v);
  RestartMoments(rows.heads, live_rows, adam.mean.w_o, adam.variance.w_o);
  state.tokens_since_fired.index_fill_(0, rows.heads, 0);
}

}  // namespace lorsa::trainer

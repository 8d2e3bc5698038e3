#include "trainer/lorsa/top_k.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>

namespace lorsa::trainer {
namespace {

at::Tensor Scores(const LorsaConfig& config, const at::Tensor& z, const at::Tensor& w_o) {
  const bool is_signed = config.selection == Selection::kSigned;
  if (!is_signed && !config.select_by_decoder_norm) return z;
  return (is_signed ? z.abs() : z) * w_o.norm(2, /*dim=*/{1});
}

// topk leaves open which of several equal scores at the threshold it takes. Rows where there are
// such, which are rare, are done again with a stable sort, so that the lower head number wins.
void SettleTies(const at::Tensor& scores, const at::Tensor& thresholds, at::Tensor& heads) {
  const int64_t k = heads.size(1);
  const at::Tensor rows = ((scores >= thresholds).sum(-1) > k).nonzero().flatten();
  if (rows.numel() == 0) return;
  const at::Tensor order = std::get<1>(
      scores.index_select(0, rows).sort(/*stable=*/true, /*dim=*/-1, /*descending=*/true));
  heads.index_copy_(0, rows, order.narrow(1, 0, k));
}

at::Tensor TopHeads(const at::Tensor& scores, int64_t k) {
  auto [top, heads] = scores.topk(k, /*dim=*/-1);
  SettleTies(scores, top.narrow(1, k - 1, 1), heads);
  return std::get<0>(heads.sort(-1));
}

}  // namespace

Activations KeepTopK(const LorsaConfig& config, int64_t top_k, const at::Tensor& z,
                     const at::Tensor& w_o) {
  Activations out;
  at::Tensor keep;
  {
    at::NoGradGuard no_grad;
    const at::Tensor scores = Scores(config, z, w_o);
    out.heads = TopHeads(scores, top_k);
    if (config.selection == Selection::kRelu) keep = scores.gather(1, out.heads) > 0;
  }
  out.values = z.gather(1, out.heads);
  if (keep.defined()) out.values = out.values * keep;
  return out;
}

Activations KeepTopDead(const LorsaConfig& config, const AuxLoss& aux, const at::Tensor& z,
                        const at::Tensor& w_o) {
  Activations out;
  {
    at::NoGradGuard no_grad;
    const at::Tensor scores =
        Scores(config, z, w_o)
            .masked_fill(aux.dead.logical_not(), -std::numeric_limits<double>::infinity());
    out.heads = TopHeads(scores, aux.top_k);
  }
  out.values = z.gather(1, out.heads);
  return out;
}

}  // namespace lorsa::trainer

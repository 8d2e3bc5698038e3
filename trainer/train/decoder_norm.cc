#include "trainer/train/decoder_norm.h"

#include <ATen/ATen.h>

namespace lorsa::trainer {
namespace {

// [H, 1]: what the rows of W_O are divided by to get their norm; 1 for rows of zeros.
at::Tensor Excess(double norm, const at::Tensor& w_o) {
  const at::Tensor excess = w_o.norm(2, /*dim=*/{1}, /*keepdim=*/true) / norm;
  return excess.masked_fill(excess == 0, 1);
}

}  // namespace

void MoveDecoderNorm(double norm, LorsaParameters& parameters) {
  const at::Tensor excess_H1 = Excess(norm, parameters.w_o);
  parameters.w_o.div_(excess_H1);
  parameters.w_v.mul_(excess_H1);
  parameters.b_v.mul_(excess_H1.squeeze(1));
}

void ProjectDecoder(double norm, LorsaParameters& parameters) {
  parameters.w_o.div_(Excess(norm, parameters.w_o));
}

void RemoveParallelPart(const LorsaParameters& parameters, LorsaParameters& gradients) {
  const at::Tensor directions = UnitRows(parameters.w_o);
  const at::Tensor along_H1 = (gradients.w_o * directions).sum(1, /*keepdim=*/true);
  gradients.w_o.sub_(along_H1 * directions);
}

}  // namespace lorsa::trainer

#include "trainer/lorsa/rope.h"

#include <ATen/ATen.h>

#include <cmath>

namespace lorsa::trainer {
namespace {

at::Tensor ScaleByParts(const at::Tensor& frequencies, const store::NtkByParts& ntk) {
  const double context = static_cast<double>(ntk.original_context);
  const at::Tensor wavelengths = 2 * M_PI / frequencies;
  const at::Tensor smooth =
      (context / wavelengths - ntk.low_freq_factor) / (ntk.high_freq_factor - ntk.low_freq_factor);
  const at::Tensor slowed = frequencies / ntk.factor;
  const at::Tensor between = (1 - smooth) * slowed + smooth * frequencies;
  return at::where(wavelengths > context / ntk.low_freq_factor, slowed,
                   at::where(wavelengths < context / ntk.high_freq_factor, frequencies, between));
}

// (a, b) → (−b, a) for each pair.
at::Tensor RotateQuarterTurn(const at::Tensor& x, bool adjacent_pairs) {
  if (adjacent_pairs) {
    const at::Tensor pairs = x.unflatten(-1, {-1, 2});
    return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
  }
  const auto halves = x.chunk(2, -1);
  return at::cat({-halves[1], halves[0]}, -1);
}

}  // namespace

RopeTables MakeRopeTables(const store::Rope& rope, int64_t positions, at::Device device) {
  const auto fp32 = at::device(device).dtype(at::kFloat);
  const at::Tensor exponents = at::arange(0, rope.rotary_dim, 2, fp32) / rope.rotary_dim;
  at::Tensor frequencies = 1 / at::pow(rope.base, exponents);
  if (rope.ntk_by_parts) frequencies = ScaleByParts(frequencies, *rope.ntk_by_parts);
  const at::Tensor half = at::outer(at::arange(positions, fp32), frequencies);
  const at::Tensor angles =
      rope.adjacent_pairs ? half.repeat_interleave(2, -1) : at::cat({half, half}, -1);
  return {.cos = angles.cos(), .sin = angles.sin()};
}

at::Tensor ApplyRope(const at::Tensor& x, const RopeTables& tables, bool adjacent_pairs) {
  const int64_t rotary_dim = tables.cos.size(-1), rest = x.size(-1) - rotary_dim;
  const at::Tensor turning = x.narrow(-1, 0, rotary_dim);
  const at::Tensor turned = turning * tables.cos.unsqueeze(-2) +
                            RotateQuarterTurn(turning, adjacent_pairs) * tables.sin.unsqueeze(-2);
  if (rest == 0) return turned;
  return at::cat({turned, x.narrow(-1, rotary_dim, rest)}, -1);
}

}  // namespace lorsa::trainer

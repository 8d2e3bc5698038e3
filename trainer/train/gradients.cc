#include "trainer/train/gradients.h"

#include <ATen/ATen.h>

#include <cmath>

namespace lorsa::trainer {

double GlobalNorm(const LorsaConfig& config, const LorsaParameters& gradients) {
  double sum = 0;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    const double norm =
        at::linalg_vector_norm(gradients.*spec.member, 2, {}, /*keepdim=*/false, at::kDouble)
            .item<double>();
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

void ClipToNorm(const LorsaConfig& config, double norm, double max_norm,
                LorsaParameters& gradients) {
  if (max_norm == 0 || norm <= max_norm) return;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    (gradients.*spec.member).mul_(max_norm / norm);
  }
}

std::string FirstNonFinite(const LorsaConfig& config, const LorsaParameters& tensors) {
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    if (!(tensors.*spec.member).isfinite().all().item<bool>()) return spec.name;
  }
  return "";
}

}  // namespace lorsa::trainer

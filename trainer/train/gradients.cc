#include "trainer/train/gradients.h"

#include <ATen/ATen.h>

#include <cmath>

#include "trainer/kernels/optimizer.h"

namespace lorsa::trainer {
namespace {

double SumOfSquares(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return kernels::SumOfSquares(tensor.data_ptr<float>(), tensor.numel());
  return tensor.to(at::kDouble).square().sum().item<double>();
}

}  // namespace

double GlobalNorm(const LorsaConfig& config, const LorsaParameters& gradients) {
  double sum = 0;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    sum += SumOfSquares((gradients.*spec.member).contiguous());
  }
  return std::sqrt(sum);
}

double ClippingFactor(double norm, double max_norm) {
  return max_norm == 0 || norm <= max_norm ? 1 : max_norm / norm;
}

std::string FirstNonFinite(const LorsaConfig& config, const LorsaParameters& tensors) {
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    if (!(tensors.*spec.member).isfinite().all().item<bool>()) return spec.name;
  }
  return "";
}

}  // namespace lorsa::trainer

#include "trainer/train/adam.h"

#include <ATen/ATen.h>

#include <cmath>

#include "trainer/kernels/optimizer.h"

namespace lorsa::trainer {
namespace {

double RateOf(const LearningRates& rates, const ParameterSpec& spec) {
  if (spec.is_qk) return rates.qk;
  if (spec.member == &LorsaParameters::w_v) return rates.w_v;
  if (spec.member == &LorsaParameters::w_o) return rates.w_o;
  return rates.biases;
}

kernels::AdamConstants ConstantsOf(const AdamOptions& options, double rate, double gradient_factor,
                                   int64_t steps) {
  const double count = static_cast<double>(steps);
  const double correction1 = 1 - std::pow(options.beta1, count);
  const double correction2 = 1 - std::pow(options.beta2, count);
  return {.one_minus_beta1 = static_cast<float>(1 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .one_minus_beta2 = static_cast<float>(1 - options.beta2),
          .epsilon = static_cast<float>(options.epsilon),
          .step_size = static_cast<float>(rate / correction1),
          .inverse_sqrt_correction = static_cast<float>(1 / std::sqrt(correction2)),
          .gradient_factor = static_cast<float>(gradient_factor)};
}

// One parameter of AdamState and LorsaParameters each.
struct Tensors {
  const at::Tensor &gradient, &mean, &variance, &parameter;
};

kernels::AdamSums UpdateOnCpu(const kernels::AdamConstants& constants, const Tensors& tensors) {
  const at::Tensor gradient = tensors.gradient.contiguous();
  return kernels::AdamUpdate(constants, {.n = gradient.numel(),
                                         .gradient = gradient.data_ptr<float>(),
                                         .mean = tensors.mean.data_ptr<float>(),
                                         .variance = tensors.variance.data_ptr<float>(),
                                         .parameter = tensors.parameter.data_ptr<float>()});
}

double SumOfSquares(const at::Tensor& tensor) {
  return tensor.square().sum(at::kDouble).item<double>();
}

kernels::AdamSums UpdateElsewhere(const kernels::AdamConstants& c, const Tensors& tensors) {
  const at::Tensor gradient = tensors.gradient * c.gradient_factor;
  tensors.mean.lerp_(gradient, c.one_minus_beta1);
  tensors.variance.mul_(c.beta2).addcmul_(gradient, gradient, c.one_minus_beta2);
  const at::Tensor update = tensors.mean * c.step_size /
                            (tensors.variance.sqrt() * c.inverse_sqrt_correction + c.epsilon);
  tensors.parameter.sub_(update);
  return {SumOfSquares(update), SumOfSquares(tensors.parameter)};
}

}  // namespace

AdamState NewAdamState(const LorsaConfig& config, at::Device device) {
  return {.mean = ZeroParameters(config, device), .variance = ZeroParameters(config, device)};
}

AdamReport ApplyAdam(const LorsaConfig& config, const AdamOptions& options,
                     const LearningRates& rates, double gradient_factor,
                     const LorsaParameters& gradients, LorsaParameters& parameters,
                     AdamState& state) {
  ++state.steps;
  double update_squares = 0, parameter_squares = 0;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    const double rate = RateOf(rates, spec);
    if (rate == 0) continue;
    const kernels::AdamConstants constants =
        ConstantsOf(options, rate, gradient_factor, state.steps);
    const Tensors tensors{gradients.*spec.member, state.mean.*spec.member,
                          state.variance.*spec.member, parameters.*spec.member};
    const kernels::AdamSums sums = tensors.parameter.is_cpu() ? UpdateOnCpu(constants, tensors)
                                                              : UpdateElsewhere(constants, tensors);
    update_squares += sums.update_squares;
    parameter_squares += sums.parameter_squares;
  }
  return {.update_norm = std::sqrt(update_squares), .parameter_norm = std::sqrt(parameter_squares)};
}

}  // namespace lorsa::trainer

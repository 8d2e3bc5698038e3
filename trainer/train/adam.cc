#include "trainer/train/adam.h"

#include <ATen/ATen.h>

#include <map>
#include <vector>

namespace lorsa::trainer {
namespace {

// Parameters that share a learning rate, side by side as ATen's fused update takes them.
struct Group {
  std::vector<at::Tensor> parameters, gradients, mean, variance, steps;
};

double RateOf(const LearningRates& rates, const ParameterSpec& spec) {
  if (spec.is_qk) return rates.qk;
  if (spec.member == &LorsaParameters::w_v) return rates.w_v;
  if (spec.member == &LorsaParameters::w_o) return rates.w_o;
  return rates.biases;
}

void Append(const ParameterSpec& spec, const LorsaParameters& gradients,
            const LorsaParameters& parameters, const AdamState& state, Group& group) {
  group.parameters.push_back(parameters.*spec.member);
  group.gradients.push_back((gradients.*spec.member).contiguous());
  group.mean.push_back(state.mean.*spec.member);
  group.variance.push_back(state.variance.*spec.member);
  // Bias correction counts this step already.
  group.steps.push_back(
      at::full({}, static_cast<double>(state.steps), group.gradients.back().options()));
}

void Update(const AdamOptions& options, double learning_rate, Group& group) {
  at::_fused_adam_(group.parameters, group.gradients, group.mean, group.variance,
                   /*max_exp_avg_sqs=*/{}, group.steps, learning_rate, options.beta1, options.beta2,
                   /*weight_decay=*/0, options.epsilon, /*amsgrad=*/false,
                   /*maximize=*/false);
}

}  // namespace

AdamState NewAdamState(const LorsaConfig& config, at::Device device) {
  return {.mean = ZeroParameters(config, device), .variance = ZeroParameters(config, device)};
}

void ApplyAdam(const LorsaConfig& config, const AdamOptions& options, const LearningRates& rates,
               const LorsaParameters& gradients, LorsaParameters& parameters, AdamState& state) {
  ++state.steps;
  std::map<double, Group> groups;  // by rate: the fewer, the fewer calls
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    const double rate = RateOf(rates, spec);
    if (rate > 0) Append(spec, gradients, parameters, state, groups[rate]);
  }
  for (auto& [rate, group] : groups) Update(options, rate, group);
}

}  // namespace lorsa::trainer

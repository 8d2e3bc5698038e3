// The structured bindings below name every field, so that a new one does not compile until it is
// sent too.
#include "trainer/parallel/step_messages.h"

#include <ATen/ATen.h>

#include <cmath>

#include "trainer/parallel/tensor_messages.h"

namespace lorsa::trainer {
namespace {

struct OptionNumbers {
  int64_t top_k;
  int64_t loss_targets;
  int64_t has_aux;
  int64_t aux_top_k;
  double aux_coefficient;
};

struct ResultNumbers {
  double loss;
  double aux_loss;
  int64_t targets;
  double activation_sum;
  double activation_max;
};

// NaN if either is.
double MaxOrNan(double a, double b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace

void SendStepOptions(Communicator& communicator, int to, const StepOptions& options) {
  const auto& [top_k, loss_targets, aux] = options;
  OptionNumbers numbers{.top_k = top_k, .loss_targets = loss_targets};
  if (!aux) return SendStruct(communicator, to, numbers);
  const auto& [dead, aux_top_k, coefficient] = *aux;
  numbers.has_aux = 1;
  numbers.aux_top_k = aux_top_k;
  numbers.aux_coefficient = coefficient;
  SendStruct(communicator, to, numbers);
  SendTensor(communicator, to, dead);
}

StepOptions ReceiveStepOptions(Communicator& communicator, int from) {
  const auto numbers = ReceiveStruct<OptionNumbers>(communicator, from);
  StepOptions options{.top_k = numbers.top_k, .loss_targets = numbers.loss_targets};
  if (numbers.has_aux == 0) return options;
  options.aux = AuxLoss{.top_k = numbers.aux_top_k, .coefficient = numbers.aux_coefficient};
  ReceiveTensor(communicator, from, options.aux->dead);
  return options;
}

void SendStepResult(Communicator& communicator, int to, const LorsaConfig& config,
                    const StepResult& result) {
  const auto& [loss, aux_loss, targets, firings, activation_sum, activation_max, gradients] =
      result;
  SendStruct(communicator, to,
             ResultNumbers{.loss = loss,
                           .aux_loss = aux_loss,
                           .targets = targets,
                           .activation_sum = activation_sum,
                           .activation_max = activation_max});
  if (targets == 0) return;
  SendTensor(communicator, to, firings);
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    SendTensor(communicator, to, gradients.*spec.member);
  }
}

void ReceiveStepResult(Communicator& communicator, int from, const LorsaConfig& config,
                       StepResult& into) {
  const auto numbers = ReceiveStruct<ResultNumbers>(communicator, from);
  into.loss = numbers.loss;
  into.aux_loss = numbers.aux_loss;
  into.targets = numbers.targets;
  into.activation_sum = numbers.activation_sum;
  into.activation_max = numbers.activation_max;
  if (into.targets == 0) return;
  ReceiveTensor(communicator, from, into.firings);
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    ReceiveTensor(communicator, from, into.gradients.*spec.member);
  }
}

void AddStepResult(const LorsaConfig& config, const StepResult& part, StepResult& sum) {
  if (part.targets == 0) return;
  sum.loss += part.loss;
  sum.aux_loss += part.aux_loss;
  sum.targets += part.targets;
  sum.firings.add_(part.firings);
  sum.activation_sum += part.activation_sum;
  sum.activation_max = MaxOrNan(sum.activation_max, part.activation_max);
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    (sum.gradients.*spec.member).add_(part.gradients.*spec.member);
  }
}

StepResult ZeroStepResult(const LorsaConfig& config) {
  return {.firings = at::zeros({config.n_ov_heads}, at::kLong),
          .gradients = ZeroParameters(config, at::kCPU)};
}

void SendForwardResult(Communicator& communicator, int to, const ForwardResult& result) {
  const auto& [reconstruction, activations] = result;
  const auto& [heads, values] = activations;
  SendTensor(communicator, to, reconstruction);
  SendTensor(communicator, to, heads);
  SendTensor(communicator, to, values);
}

ForwardResult ReceiveForwardResult(Communicator& communicator, int from) {
  ForwardResult result;
  ReceiveTensor(communicator, from, result.reconstruction);
  ReceiveTensor(communicator, from, result.activations.heads);
  ReceiveTensor(communicator, from, result.activations.values);
  return result;
}

}  // namespace lorsa::trainer

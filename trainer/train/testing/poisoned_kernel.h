// A kernel that gives NaN for chosen batches, for tests of what a run does then.
#ifndef LORSA_TRAINER_TRAIN_TESTING_POISONED_KERNEL_H_
#define LORSA_TRAINER_TRAIN_TESTING_POISONED_KERNEL_H_

#include <ATen/ATen.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "trainer/lorsa/lorsa_kernel.h"
#include "trainer/train/training_run.h"

namespace lorsa::trainer {

// What a batch makes not finite.
enum class Poison { kNothing, kLoss, kGradient, kWeights, kReconstruction };

class PoisonedKernel final : public LorsaKernel {
 public:
  // `poison` is asked with the inputs of each batch.
  using Chooser = std::function<Poison(const at::Tensor& x_BSd)>;
  PoisonedKernel(std::unique_ptr<LorsaKernel> kernel, Chooser poison)
      : kernel_(std::move(kernel)), poison_(std::move(poison)) {}

  const LorsaConfig& config() const override { return kernel_->config(); }

  StepResult ForwardBackward(const LorsaParameters& parameters, const Batch& batch,
                             const StepOptions& options) override {
    StepResult result = kernel_->ForwardBackward(parameters, batch, options);
    switch (poison_(batch.x)) {
      case Poison::kLoss:
        result.loss = std::numeric_limits<double>::infinity();
        break;
      case Poison::kGradient:
        result.gradients.w_v[0][0] = std::numeric_limits<double>::quiet_NaN();
        break;
      case Poison::kWeights:  // As an update that overflows would.
        at::Tensor(parameters.w_o)[1][0] = std::numeric_limits<double>::infinity();
        break;
      case Poison::kNothing:
      case Poison::kReconstruction:
        break;
    }
    return result;
  }
  ForwardResult Forward(const LorsaParameters& parameters, const at::Tensor& x) override {
    ForwardResult result = kernel_->Forward(parameters, x);
    if (poison_(x) == Poison::kReconstruction) {
      result.reconstruction.fill_(std::numeric_limits<double>::quiet_NaN());
    }
    return result;
  }
  Intermediates Inspect(const LorsaParameters& parameters, const at::Tensor& x) override {
    return kernel_->Inspect(parameters, x);
  }

 private:
  const std::unique_ptr<LorsaKernel> kernel_;
  const Chooser poison_;
};

inline KernelDecorator Poisoned(PoisonedKernel::Chooser poison) {
  return [poison](std::unique_ptr<LorsaKernel> kernel) {
    return std::make_unique<PoisonedKernel>(std::move(kernel), poison);
  };
}

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_TESTING_POISONED_KERNEL_H_

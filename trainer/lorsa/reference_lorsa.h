// The Lorsa in ATen operations with autograd: clear, right, and the path on any device.
#ifndef LORSA_TRAINER_LORSA_REFERENCE_LORSA_H_
#define LORSA_TRAINER_LORSA_REFERENCE_LORSA_H_

#include <utility>

#include "trainer/lorsa/lorsa_kernel.h"

namespace lorsa::trainer {

class ReferenceLorsa final : public LorsaKernel {
 public:
  // `config` is valid (ValidateLorsaConfig).
  explicit ReferenceLorsa(LorsaConfig config) : config_(std::move(config)) {}

  const LorsaConfig& config() const override { return config_; }
  StepResult ForwardBackward(const LorsaParameters& parameters, const Batch& batch,
                             const StepOptions& options) override;
  ForwardResult Forward(const LorsaParameters& parameters, const at::Tensor& x) override;
  Intermediates Inspect(const LorsaParameters& parameters, const at::Tensor& x) override;

 private:
  LorsaConfig config_;
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_REFERENCE_LORSA_H_

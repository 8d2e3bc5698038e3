// What an implementation of the Lorsa's mathematics offers. One interface, several
// implementations, all held to the same golden files.
#ifndef LORSA_TRAINER_LORSA_LORSA_KERNEL_H_
#define LORSA_TRAINER_LORSA_LORSA_KERNEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "trainer/config/lorsa_config.h"
#include "trainer/lorsa/lorsa_parameters.h"

namespace lorsa::trainer {

// fp32, on the device of the parameters. Shapes use the letters of lorsa_config.h; T = B·S.
struct Batch {
  at::Tensor x;     // [B, S, d] scaled attention input
  at::Tensor y;     // [B, S, d] scaled target
  at::Tensor mask;  // [B, S] bool: true = a target that counts; at least one is
};

// The kept heads of each token, in order of their number. Fewer than K kept: the value of the
// others is 0.
struct Activations {
  at::Tensor heads;   // [T, K] int64
  at::Tensor values;  // [T, K] z of the kept heads
};

struct ForwardResult {
  at::Tensor reconstruction;  // [B, S, d]
  Activations activations;
};

// An auxiliary loss that gives dead heads a gradient (AuxK; arXiv 2406.04093, appendix A.2). With e
// = y−ŷ, detached, and ê = Σ z_i W_O[i] over the top_k dead heads with the largest scores (no ReLU,
// no bias), coefficient · ‖e−ê‖² joins the loss of a target.
struct AuxLoss {
  at::Tensor dead;         // [H] bool, at least one true
  int64_t top_k = 0;       // 1 to the number of dead heads
  double coefficient = 0;  // > 0
};

// What may differ from step to step.
struct StepOptions {
  int64_t top_k = 0;  // K of this step, 1 to H
  // What the summed squared errors are divided by: the unmasked targets of the whole step, of which
  // the batch may be a part.
  int64_t loss_targets = 0;
  std::optional<AuxLoss> aux;
};

// Sums over the batch's unmasked targets, so that those of a step's parts add up.
struct StepResult {
  double loss = 0;      // squared error summed over d and targets, divided by loss_targets
  double aux_loss = 0;  // ‖e−ê‖² likewise, without the coefficient; 0 without AuxLoss
  int64_t targets = 0;
  at::Tensor firings;         // [H] int64: targets at which the head was active
  double activation_sum = 0;  // of |z| over active heads
  double activation_max = 0;  // of |z|
  LorsaParameters gradients;  // of loss + coefficient · aux_loss
};

// What happens on the way, for tests and for reading heads.
struct Intermediates {
  at::Tensor q;        // [B, S, G, D] after norm and rope
  at::Tensor k;        // [B, S, G, D]
  at::Tensor pattern;  // [B, G, S, S] query, key
  at::Tensor v;        // [B, S, H]
  at::Tensor z;        // [B, S, H] pre-activations
};

// Ties between scores go to the head with the lower number. Gradients pass through the z of kept
// heads only and not through the norms in the score. The same input gives the same bits on the
// same device with the same number of threads. One thread at a time; throws c10::Error (see
// torch_guard.h).
class LorsaKernel {
 public:
  virtual ~LorsaKernel() = default;

  virtual const LorsaConfig& config() const = 0;
  virtual StepResult ForwardBackward(const LorsaParameters& parameters, const Batch& batch,
                                     const StepOptions& options) = 0;
  // `x` [B, S, d]; K is that of the configuration.
  virtual ForwardResult Forward(const LorsaParameters& parameters, const at::Tensor& x) = 0;
  virtual Intermediates Inspect(const LorsaParameters& parameters, const at::Tensor& x) = 0;
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_LORSA_KERNEL_H_

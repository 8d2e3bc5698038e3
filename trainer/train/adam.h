// Adam (arXiv 1412.6980) as torch.optim.Adam computes it: bias-corrected moments, epsilon outside
// the square root. Its whole state is plain tensors and one count, so that it can be saved.
#ifndef LORSA_TRAINER_TRAIN_ADAM_H_
#define LORSA_TRAINER_TRAIN_ADAM_H_

#include <cstdint>

#include "trainer/lorsa/lorsa_config.h"
#include "trainer/lorsa/lorsa_parameters.h"

namespace lorsa::trainer {

struct AdamState {
  LorsaParameters mean;      // first moments
  LorsaParameters variance;  // second moments, uncentred
  int64_t steps = 0;         // applied
};

// All zero.
AdamState NewAdamState(const LorsaConfig& config, at::Device device);

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// One step of `parameters` in place. `learning_rate` is that of the OV circuit, multiplied by
// `qk_factor` for the QK circuit. Deterministic for a given number of threads. Throws c10::Error.
void ApplyAdam(const LorsaConfig& config, const AdamOptions& options, double learning_rate,
               double qk_factor, const LorsaParameters& gradients, LorsaParameters& parameters,
               AdamState& state);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_ADAM_H_

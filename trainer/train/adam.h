// Adam (arXiv 1412.6980) as torch.optim.Adam computes it: bias-corrected moments, epsilon outside
// the square root. Its whole state is plain tensors and one count, so that it can be saved.
#ifndef LORSA_TRAINER_TRAIN_ADAM_H_
#define LORSA_TRAINER_TRAIN_ADAM_H_

#include <cstdint>

#include "trainer/config/lorsa_config.h"
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

// Of one step, for each group of parameters.
struct LearningRates {
  double qk = 0;      // W_Q, W_K, their biases and the gains of the QK norm
  double w_v = 0;     // W_V
  double w_o = 0;     // W_O
  double biases = 0;  // b_V and b_D
};

// What a step changed, as Euclidean norms over all parameters that have a rate.
struct AdamReport {
  double update_norm = 0;     // of what was added to the parameters
  double parameter_norm = 0;  // of the parameters after it; not finite if one of them is not
};

// One step of `parameters` in place by the gradients times `gradient_factor` (of clipping). A group
// with rate 0 is left alone, its moments too. Deterministic, on a CPU whatever the number of
// threads. Throws c10::Error.
AdamReport ApplyAdam(const LorsaConfig& config, const AdamOptions& options,
                     const LearningRates& rates, double gradient_factor,
                     const LorsaParameters& gradients, LorsaParameters& parameters,
                     AdamState& state);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_ADAM_H_

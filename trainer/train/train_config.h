// What one training run does: the resolved training specification as plain numbers. Knows nothing
// of torch or of the service's messages.
#ifndef LORSA_TRAINER_TRAIN_TRAIN_CONFIG_H_
#define LORSA_TRAINER_TRAIN_TRAIN_CONFIG_H_

#include <cstdint>

#include "absl/status/status.h"
#include "activation_store/manifest.h"
#include "trainer/lorsa/lorsa_config.h"

namespace lorsa::trainer {

// Where the weights start; see attention_initialization.h.
enum class Initialization {
  kRandom,         // no use of the layer's own weights
  kFromAttention,  // Q, K from the layer; V, O random in each head's value space
  kDataSampled,    // Q, K from the layer; V, O from sampled attention outputs
};

struct TrainConfig {
  LorsaConfig lorsa;
  // Description of the activation set: shapes, element type, mean norms, model and layer.
  store::Manifest set;

  Initialization initialization = Initialization::kDataSampled;
  int64_t total_tokens = 0;  // positions, masked ones included; rounded up to whole steps
  int64_t sequences_per_step = 8;
  double learning_rate = 2e-3;           // peak
  double qk_learning_rate_factor = 0.2;  // on W_Q, W_K, b_Q, b_K and the QK norm
  double warmup_fraction = 0.05;         // of the steps
  double decay_fraction = 0.2;
  double final_learning_rate_factor = 1.0 / 32;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_gradient_norm = 0;  // 0 = no clipping
  uint64_t seed = 0;             // of the initialisation; the host orders sequences by it too
  int threads = 1;               // of libtorch; part of what makes a run repeatable to the bit
  int64_t evaluation_interval_tokens = 0;  // at least 1; rounded up to whole steps
  int64_t checkpoint_interval_tokens = 0;  // the same

  int64_t tokens_per_step() const { return sequences_per_step * set.context; }
  // Steps that cover `tokens`, at least one.
  int64_t StepsFor(int64_t tokens) const;
  int64_t total_steps() const { return StepsFor(total_tokens); }
  int64_t evaluation_interval_steps() const { return StepsFor(evaluation_interval_tokens); }
  int64_t checkpoint_interval_steps() const { return StepsFor(checkpoint_interval_tokens); }
  // Factors on the activations that make their mean norms sqrt(d_model).
  double input_scale() const;
  double output_scale() const;
};

// INVALID_ARGUMENT naming the field that is out of its bounds or does not fit the set.
absl::Status ValidateTrainConfig(const TrainConfig& config);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_TRAIN_CONFIG_H_

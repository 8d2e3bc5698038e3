// What one training run does: the resolved training specification as plain numbers. Knows nothing
// of torch or of the service's messages.
#ifndef LORSA_TRAINER_CONFIG_TRAIN_CONFIG_H_
#define LORSA_TRAINER_CONFIG_TRAIN_CONFIG_H_

#include <cstdint>

#include "absl/status/status.h"
#include "activation_store/manifest.h"
#include "trainer/config/lorsa_config.h"
#include "trainer/config/precision.h"

namespace lorsa::trainer {

// Where the weights start; see attention_initialization.h and checkpoint_initialization.h.
enum class Initialization {
  kRandom,         // no use of the layer's own weights
  kFromAttention,  // Q, K from the layer; V, O random in each head's value space
  kDataSampled,    // Q, K from the layer; V, O from sampled attention outputs
  kCheckpoint,     // the weights of a checkpoint
};

enum class LearningRateSchedule {
  kWarmupStableDecay,  // linear rise, the peak, linear fall in the last decay_fraction
  kCosine,             // linear rise, then half a cosine from the peak to the end
  kConstant,           // linear rise, then the peak to the end
};

// How K goes from initial_top_k to top_k while K warms up.
enum class TopKWarmup { kLinear, kExponential };

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
  LearningRateSchedule schedule = LearningRateSchedule::kWarmupStableDecay;
  // On W_V, on W_O, and on b_V and b_D.
  double w_v_learning_rate_factor = 1;
  double w_o_learning_rate_factor = 1;
  double bias_learning_rate_factor = 1;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_gradient_norm = 0;  // 0 = no clipping

  // K warm-up: from initial_top_k at the first step to top_k after this share of the steps. 0 =
  // off.
  double top_k_warmup_fraction = 0;
  int64_t initial_top_k = 0;  // 1 to n_ov_heads; not used when off
  TopKWarmup top_k_warmup = TopKWarmup::kLinear;
  double decoder_norm = 0;  // of each row of W_O after every step; 0 = free

  // A head is dead once it has not been active in this share of the run's tokens.
  double dead_after_fraction = 0.02;
  double aux_coefficient = 0;  // of AuxK (AuxLoss); 0 = off
  int64_t aux_top_k = 1;       // dead heads that AuxK uses at a target, at most
  // Dead heads get new directions each time this share of the steps is done (0 = off), until
  // resample_until_fraction of the steps.
  double resample_interval_fraction = 0;
  double resample_until_fraction = 0.5;
  // Share of the targets at which a resampled head starts active, relative to K/H.
  double resample_firing_factor = 0.3;
  // Horizon of the moving average of the weights that is evaluated and published, as a share of the
  // steps: each step's weight falls by 1/e in it. 0 = off, the trained weights themselves.
  double ema_fraction = 0;
  int64_t refit_tokens = 0;   // of the final refit of W_O and b_D; 0 = off
  double refit_ridge = 1e-2;  // relative to a head's mean squared activation; see decoder_refit.h

  uint64_t seed = 0;  // of the initialisation; the host orders sequences by it too
  Precision precision = Precision::kFp32;
  int ranks = 1;    // processes that share a step; at most sequences_per_step
  int threads = 1;  // of libtorch, in each rank; both are part of what repeats to the bit
  int64_t evaluation_interval_tokens = 0;  // at least 1; rounded up to whole steps
  int64_t checkpoint_interval_tokens = 0;  // the same
  // Times that the run may go back after a number that is not finite; see rollback.h.
  int64_t max_rollbacks = 3;
  // What the host keeps of the checkpoints (job_spec/retention.h); here for the disk they take.
  int64_t keep_checkpoints = 3;
  int64_t keep_every_tokens = 0;  // 0 = none for this reason

  int64_t tokens_per_step() const { return sequences_per_step * set.context; }
  // Steps that cover `tokens`, at least one.
  int64_t StepsFor(int64_t tokens) const;
  int64_t total_steps() const { return StepsFor(total_tokens); }
  int64_t evaluation_interval_steps() const { return StepsFor(evaluation_interval_tokens); }
  int64_t checkpoint_interval_steps() const { return StepsFor(checkpoint_interval_tokens); }
  // Tokens without firing after which a head is dead, at least one.
  int64_t dead_after_tokens() const;
  // Whether dead heads are resampled before step number `step`.
  bool ResamplesAt(int64_t step) const;
  // Each also before the first step and after the last.
  bool evaluation_is_due(int64_t step) const { return Due(step, evaluation_interval_steps()); }
  bool checkpoint_is_due(int64_t step) const { return Due(step, checkpoint_interval_steps()); }
  // Factors on the activations that make their mean norms sqrt(d_model).
  double input_scale() const;
  double output_scale() const;

 private:
  bool Due(int64_t step, int64_t interval) const {
    return step % interval == 0 || step >= total_steps();
  }
};

// INVALID_ARGUMENT naming the field that is out of its bounds or does not fit the set.
absl::Status ValidateTrainConfig(const TrainConfig& config);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_CONFIG_TRAIN_CONFIG_H_

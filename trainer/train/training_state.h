// Everything that a run carries from one step to the next, and so all that a checkpoint holds.
#ifndef LORSA_TRAINER_TRAIN_TRAINING_STATE_H_
#define LORSA_TRAINER_TRAIN_TRAINING_STATE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/config/lorsa_config.h"
#include "trainer/config/precision.h"
#include "trainer/lorsa/lorsa_parameters.h"
#include "trainer/lorsa/tensor_file.h"
#include "trainer/train/adam.h"
#include "trainer/train/rollback.h"

namespace lorsa::trainer {

// The plain numbers: state.json.
struct TrainingCounts {
  int64_t step = 0;                // done, skipped ones included
  int64_t sequences_consumed = 0;  // cursor in the order of `seed`
  uint64_t seed = 0;
  Precision precision = Precision::kFp32;  // of the whole run
  // Without an unmasked target, or left out by a rollback; the optimiser took the other steps.
  int64_t skipped_batches = 0;
  std::optional<int64_t> evaluated_step;  // of the newest evaluation
  std::optional<double> fvu;              // its held-out FVU
  std::optional<double> best_fvu;         // the lowest so far
  bool refitted = false;                  // the final refit of the decoder is done
  Rollbacks rollbacks;
};

struct TrainingState {
  LorsaParameters parameters;  // those that the optimiser changes
  // Their moving average, when the run keeps one (weight_average.h).
  std::optional<LorsaParameters> averaged;
  AdamState adam;
  at::Tensor tokens_since_fired;  // [H] int64
  TrainingCounts counts;

  // The weights that are evaluated and published.
  const LorsaParameters& published() const { return averaged ? *averaged : parameters; }
  LorsaParameters& published() { return averaged ? *averaged : parameters; }
};

std::string FormatTrainingCounts(const TrainingCounts& counts);
// DATA_LOSS naming the key that does not hold.
absl::StatusOr<TrainingCounts> ParseTrainingCounts(absl::string_view json);

// Tensors of lorsa.safetensors and of state.safetensors, by the names of the format.
NamedTensors WeightTensors(const LorsaConfig& config, const TrainingState& state);
NamedTensors StateTensors(const LorsaConfig& config, const TrainingState& state);

// The tensors of lorsa.safetensors, moved to `device`. Errors as of ReadState.
absl::StatusOr<LorsaParameters> ReadWeights(const LorsaConfig& config, const TensorFile& weights,
                                            at::Device device);

// The state that the two files and `counts` make, moved to `device`. DATA_LOSS naming the tensor
// whose dtype or shape is not that of the configuration.
absl::StatusOr<TrainingState> ReadState(const LorsaConfig& config, const TrainingCounts& counts,
                                        const TensorFile& weights, const TensorFile& state,
                                        at::Device device);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_TRAINING_STATE_H_

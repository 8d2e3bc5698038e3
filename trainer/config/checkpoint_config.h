// config.json of a checkpoint: what its weights are of (docs/checkpoint_format.md). Knows nothing
// of torch.
#ifndef LORSA_TRAINER_CONFIG_CHECKPOINT_CONFIG_H_
#define LORSA_TRAINER_CONFIG_CHECKPOINT_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/config/lorsa_config.h"
#include "trainer/config/train_config.h"

namespace lorsa::trainer {

// ŷ = Lorsa(x · input_scale) / output_scale.
struct CheckpointConfig {
  LorsaConfig lorsa;
  int64_t context = 0;
  double input_scale = 1;
  double output_scale = 1;
  std::string hook_convention;
  std::string model;
  std::string model_revision;
  int64_t layer = 0;
};

CheckpointConfig CheckpointConfigOf(const TrainConfig& config);

// The same configuration gives the same bytes.
std::string FormatCheckpointConfig(const CheckpointConfig& config);

// DATA_LOSS naming the key that is missing, unknown, of the wrong type or out of its bounds.
absl::StatusOr<CheckpointConfig> ParseCheckpointConfig(absl::string_view json);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_CONFIG_CHECKPOINT_CONFIG_H_

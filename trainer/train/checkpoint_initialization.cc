#include "trainer/train/checkpoint_initialization.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/checkpoint_history.h"

namespace lorsa::trainer {
namespace {

// Whether the weights of `checkpoint` compute what those of a run with `config` do.
bool Fits(const TrainConfig& config, const CheckpointConfig& checkpoint) {
  const CheckpointConfig wanted = CheckpointConfigOf(config);
  CheckpointConfig offered = wanted;
  offered.lorsa = checkpoint.lorsa;
  offered.lorsa.top_k = wanted.lorsa.top_k;
  offered.lorsa.selection = wanted.lorsa.selection;
  offered.lorsa.select_by_decoder_norm = wanted.lorsa.select_by_decoder_norm;
  offered.hook_convention = checkpoint.hook_convention;
  return FormatCheckpointConfig(offered) == FormatCheckpointConfig(wanted);
}

}  // namespace

void Rescale(double input_scale, double output_scale, CheckpointConfig& config,
             LorsaParameters& parameters) {
  // Biases of q, k and v do not see the input. All decoder norms change by one factor, so the same
  // heads are kept.
  const double input_factor = config.input_scale / input_scale;
  parameters.w_q.mul_(input_factor);
  parameters.w_k.mul_(input_factor);
  parameters.w_v.mul_(input_factor);
  const double output_factor = output_scale / config.output_scale;
  parameters.w_o.mul_(output_factor);
  if (parameters.b_d.defined()) parameters.b_d.mul_(output_factor);
  config.input_scale = input_scale;
  config.output_scale = output_scale;
}

absl::StatusOr<LorsaParameters> InitializeFromCheckpoint(const TrainConfig& config, RunHost& host,
                                                         const std::string& folder,
                                                         at::Device device) {
  if (folder.empty()) {
    return absl::FailedPreconditionError(
        "The run is to start from a checkpoint's weights and was given none.");
  }
  LORSA_ASSIGN_OR_RETURN(const std::string here, FetchCheckpoint(host, folder));
  LORSA_ASSIGN_OR_RETURN(CheckpointWeights checkpoint,
                         ReadCheckpointWeights(host.file_system(), here, device));
  if (!Fits(config, checkpoint.config)) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder, " has the weights of another Lorsa than the one to train: shapes, rope, qk_norm, ",
        "attn_scale or hook convention differ."));
  }
  Rescale(config.input_scale(), config.output_scale(), checkpoint.config, checkpoint.parameters);
  return checkpoint.parameters;
}

}  // namespace lorsa::trainer

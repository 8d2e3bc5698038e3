#include "trainer/train/initialization.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/train/attention_initialization.h"
#include "trainer/train/checkpoint_initialization.h"
#include "trainer/train/decoder_norm.h"
#include "trainer/train/layer_attention.h"
#include "trainer/train/training_sample.h"

namespace lorsa::trainer {
namespace {

constexpr int64_t kSamplePositions = 16384;   // enough targets to draw OV heads from
constexpr double kLeastReconstruction = 0.1;  // size of r relative to that of y−b_D

void SetDecoderBias(const TrainingSample& sample, LorsaParameters& out) {
  if (!out.b_d.defined()) return;
  at::Tensor sum = at::zeros_like(out.b_d, at::kDouble);
  int64_t targets = 0;
  for (const LoadedBatch& loaded : sample) {
    sum += TargetRows(loaded.batch.y, loaded.batch.mask).sum(0, /*keepdim=*/false, at::kDouble);
    targets += loaded.targets;
  }
  out.b_d.copy_(sum / targets);
}

// Inputs have components of size about 1: these give q and k such components too.
void InitializeRandomly(const LorsaConfig& config, at::Generator& generator, LorsaParameters& out) {
  const double deviation = 1 / std::sqrt(static_cast<double>(config.d_model));
  const auto draw = [&](at::Tensor& tensor) {
    tensor.copy_(at::randn(tensor.sizes(), generator, at::dtype(at::kFloat)));
  };
  draw(out.w_q);
  draw(out.w_k);
  out.w_q.mul_(deviation);
  out.w_k.mul_(deviation);
  draw(out.w_v);
  draw(out.w_o);
  out.w_v.copy_(UnitRows(out.w_v));
  out.w_o.copy_(UnitRows(out.w_o));
  if (config.qk_norm) {
    out.ln_q.fill_(1);
    out.ln_k.fill_(1);
  }
}

absl::StatusOr<LayerAttention> LoadLayer(const TrainConfig& config, RunHost& host,
                                         at::Device device) {
  if (!config.set.attention) {
    return absl::FailedPreconditionError(
        "The activation set does not describe its attention layer; choose the random "
        "initialisation.");
  }
  absl::StatusOr<std::string> path = host.LoadAttentionWeights();
  if (absl::IsNotFound(path.status())) {
    return absl::FailedPreconditionError(
        "The activation set has no attention.safetensors; choose the random initialisation.");
  }
  LORSA_RETURN_IF_ERROR(path.status());
  LORSA_ASSIGN_OR_RETURN(LayerAttention layer,
                         LoadLayerAttention(host.file_system(), *path, *config.set.attention,
                                            config.set.d_model, config.input_scale(), device));
  LORSA_RETURN_IF_ERROR(CheckFitsLayer(config.lorsa, layer));
  return layer;
}

// [N, n_heads, d_head]
at::Tensor SampleValues(const LayerAttention& layer, const TrainingSample& sample) {
  std::vector<at::Tensor> values;
  for (const LoadedBatch& loaded : sample) {
    values.push_back(TargetRows(layer.HeadValues(loaded.batch.x), loaded.batch.mask));
  }
  return at::cat(values);
}

absl::Status InitializeFromLayer(const TrainConfig& config, RunHost& host,
                                 const TrainingSample& sample, at::Generator& generator,
                                 LorsaParameters& out) {
  LORSA_ASSIGN_OR_RETURN(const LayerAttention layer, LoadLayer(config, host, out.w_q.device()));
  CopyQk(config.lorsa, layer, out);
  if (config.initialization == Initialization::kFromAttention) {
    InitializeOvFromAttention(config.lorsa, layer, generator, out);
  } else {
    InitializeOvFromSamples(config.lorsa, layer, SampleValues(layer, sample), generator, out);
  }
  return absl::OkStatus();
}

void ScaleDecoder(LorsaKernel& kernel, const TrainingSample& sample, LorsaParameters& out) {
  double yr = 0, rr = 0, yy = 0;
  for (const LoadedBatch& loaded : sample) {
    const at::Tensor bias = out.b_d.defined() ? out.b_d : at::zeros({1}, out.w_o.options());
    const at::Tensor y = TargetRows(loaded.batch.y, loaded.batch.mask) - bias;
    const at::Tensor r =
        TargetRows(kernel.Forward(out, loaded.batch.x).reconstruction, loaded.batch.mask) - bias;
    yr += (y * r).sum(at::kDouble).item<double>();
    rr += r.square().sum(at::kDouble).item<double>();
    yy += y.square().sum(at::kDouble).item<double>();
  }
  if (rr > 0) out.w_o.mul_(std::max(yr / rr, kLeastReconstruction * std::sqrt(yy / rr)));
}

absl::StatusOr<LorsaParameters> InitializeFromSample(const TrainConfig& config, RunHost& host,
                                                     LorsaKernel& kernel, at::Device device) {
  LORSA_ASSIGN_OR_RETURN(const TrainingSample sample,
                         ReadTrainingSample(config, host, /*cursor=*/0, kSamplePositions, device));
  LorsaParameters out = ZeroParameters(config.lorsa, device);
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(config.seed);
  if (config.initialization == Initialization::kRandom) {
    InitializeRandomly(config.lorsa, generator, out);
  } else {
    LORSA_RETURN_IF_ERROR(InitializeFromLayer(config, host, sample, generator, out));
  }
  SetDecoderBias(sample, out);
  ScaleDecoder(kernel, sample, out);
  return out;
}

}  // namespace

absl::StatusOr<LorsaParameters> InitializeParameters(const TrainConfig& config, RunHost& host,
                                                     const std::string& initial_checkpoint,
                                                     LorsaKernel& kernel, at::Device device) {
  const bool from_checkpoint = config.initialization == Initialization::kCheckpoint;
  LORSA_ASSIGN_OR_RETURN(LorsaParameters out,
                         from_checkpoint
                             ? InitializeFromCheckpoint(config, host, initial_checkpoint, device)
                             : InitializeFromSample(config, host, kernel, device));
  if (config.decoder_norm > 0) MoveDecoderNorm(config.decoder_norm, out);
  return out;
}

}  // namespace lorsa::trainer

// B sequences, S positions, T = B·S; d, H, G, D as in lorsa_config.h.
#include "trainer/resources/resource_estimate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace lorsa::trainer {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kLong = sizeof(int64_t);
// As in initialization.cc and training_sample.cc.
constexpr int64_t kSamplePositions = 16384;
constexpr int64_t kMaxSampleBytes = 256 << 20;
// What a source of sequences reads ahead (sequence_stream.h, remote_source.h).
constexpr int64_t kStreamBytes = 64 << 20;
// Two ready, one in the making, one in use.
constexpr int64_t kBatches = 4;
// Queries that attention works on at a time (fast_workspace.h).
constexpr int64_t kQueryBlock = 128;
// Headers, JSON and the rounding up to blocks.
constexpr int64_t kCheckpointOverhead = 64 << 10;

int64_t LargestTensor(const LorsaConfig& c) {
  return std::max(c.n_ov_heads * c.d_model, c.n_qk_heads * c.d_model * c.d_qk);
}

int64_t Parameters(const LorsaConfig& c) {
  const int64_t qk = 2 * c.n_qk_heads * c.d_qk * (c.d_model + 1 + (c.qk_norm ? 1 : 0));
  return qk + c.n_ov_heads * (2 * c.d_model + 1) + (c.decoder_bias ? c.d_model : 0);
}

int64_t SampleBytes(const TrainConfig& config) {
  const int64_t sequence = config.set.context * config.set.d_model * kFloat;
  const int64_t wanted =
      std::min(kSamplePositions / config.set.context, kMaxSampleBytes / sequence);
  const int64_t sequences = std::clamp<int64_t>(wanted, 1, config.set.training_sequences());
  // x, y, and the values of the layer's heads where the weights start from samples.
  const int64_t parts = config.initialization == Initialization::kRandom ? 2 : 4;
  return parts * sequences * sequence;
}

// The Gram matrix, its factor, and the right side, in double precision.
int64_t RefitBytes(const LorsaConfig& c) {
  const int64_t n = c.n_ov_heads + 1;
  return 2 * n * n * int64_t{sizeof(double)} + 2 * n * c.d_model * int64_t{sizeof(double)};
}

int64_t BatchBytes(const TrainConfig& config) {
  const int64_t positions = config.sequences_per_step * config.set.context;
  return positions * (2 * config.set.d_model * kFloat + 1);
}

// The newest, the best, the first of every so many tokens, and the one being written.
int64_t KeptCheckpoints(const TrainConfig& config) {
  const int64_t tokens = std::max<int64_t>(config.total_tokens, config.tokens_per_step());
  const int64_t made =
      2 + tokens / std::max(config.checkpoint_interval_tokens, config.tokens_per_step());
  const int64_t spaced = config.keep_every_tokens > 0 ? 1 + tokens / config.keep_every_tokens : 0;
  return std::min(made, config.keep_checkpoints + 1 + spaced) + 1;
}

}  // namespace

int64_t ResourceEstimate::memory() const {
  const int64_t training = gradients + step + snapshot + batches;
  // A forward pass takes about half of a step.
  const int64_t before = initialization + step / 2;
  const int64_t after = refit + step / 2 + snapshot;
  return weights + average + moments + std::max({training, before, after});
}

ResourceEstimate EstimateResources(const TrainConfig& config) {
  const LorsaConfig& lorsa = config.lorsa;
  const int64_t weights = Parameters(lorsa) * kFloat;
  const int64_t average = config.ema_fraction > 0 ? weights : 0;
  const int64_t state = 3 * weights + average + lorsa.n_ov_heads * kLong;
  return {.weights = weights,
          .average = average,
          .moments = 2 * weights,
          .gradients = weights + 2 * LargestTensor(lorsa) * kFloat,
          .step = KernelMemoryBytes(config),
          .snapshot = state,
          .batches = kBatches * BatchBytes(config) + kStreamBytes,
          .initialization = SampleBytes(config),
          .refit = config.refit_tokens > 0 ? RefitBytes(lorsa) : 0,
          .checkpoint = state + kCheckpointOverhead,
          .kept_checkpoints = KeptCheckpoints(config)};
}

int64_t KernelMemoryBytes(const TrainConfig& config) {
  const LorsaConfig& c = config.lorsa;
  const int64_t element = config.precision == Precision::kBf16 ? 2 : kFloat;
  const int64_t S = config.set.context, T = config.sequences_per_step * S;
  const int64_t weights = 2 * c.n_qk_heads * c.d_qk * c.d_model + 2 * c.n_ov_heads * c.d_model;
  const int64_t inputs = 5 * T * c.d_model;  // four forms, and the gradient of the output
  const int64_t qk = (c.qk_norm ? 6 : 4) * T * c.n_qk_heads * c.d_qk;  // and their gradients
  const int64_t values = 2 * T * c.n_ov_heads;                         // and their gradients
  const int64_t z = kFloat * T * c.n_ov_heads;
  // Per head kept: number, value, gradient, and the same by head.
  const bool warms_up = config.top_k_warmup_fraction > 0;
  const int64_t kept = warms_up ? std::max(c.top_k, config.initial_top_k) : c.top_k;
  const int64_t aux = config.aux_coefficient > 0 ? config.aux_top_k : 0;
  const int64_t activations = T * (kept + aux) * 5 * kFloat;
  // A block of queries against all keys, in several forms, and the values of one QK head.
  const int64_t heads = c.n_ov_heads / c.n_qk_heads;
  const int64_t scratch = kFloat * (6 * kQueryBlock * S + 4 * S * (heads + 2 * c.d_qk));
  return element * (weights + inputs + qk + values) + z + activations + config.threads * scratch;
}

std::string BytesText(int64_t bytes) {
  if (bytes < int64_t{1} << 30) return absl::StrFormat("%.1f MiB", bytes / double{1 << 20});
  return absl::StrFormat("%.2f GiB", bytes / double{1 << 30});
}

std::string MemoryText(const ResourceEstimate& estimate) {
  std::vector<std::pair<int64_t, const char*>> parts = {{estimate.weights, "weights"},
                                                        {estimate.moments, "Adam"},
                                                        {estimate.gradients, "gradients"},
                                                        {estimate.step, "the step"},
                                                        {estimate.snapshot, "a checkpoint"},
                                                        {estimate.batches, "batches"},
                                                        {estimate.initialization, "initialisation"},
                                                        {estimate.average, "averaged weights"},
                                                        {estimate.refit, "the refit"}};
  std::sort(parts.rbegin(), parts.rend());
  return absl::StrJoin(parts, ", ", [](std::string* out, const auto& part) {
    absl::StrAppend(out, part.second, " ", BytesText(part.first));
  });
}

}  // namespace lorsa::trainer

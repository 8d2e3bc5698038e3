// B sequences, S positions, T = B·S; d, H, G, D as in lorsa_config.h.
#include "trainer/resources/resource_estimate.h"

#include <malloc.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "trainer/lorsa/step_cost.h"

namespace lorsa::trainer {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kLong = sizeof(int64_t);
// As in initialization.cc, head_resampling.h and training_sample.cc.
constexpr int64_t kInitialPositions = 16384;
constexpr int64_t kResamplePositions = 4096;
constexpr int64_t kMaxSampleBytes = 256 << 20;
// What a source of sequences reads ahead (sequence_stream.h, remote_source.h).
constexpr int64_t kStreamBytes = 64 << 20;
// Resident in a process that trains a Lorsa of a few heads, what follows from its sizes taken off
// (libtorch 2.13, x86-64): 180 MB before the run and 100 MB that come in as code is used.
constexpr int64_t kProcessBytes = 280'000'000;
// Two ready, one in the making, one in use.
constexpr int64_t kBatches = 4;
constexpr int kReturnedBytes = 1 << 20;
// Headers, JSON and the rounding up to blocks.
constexpr int64_t kCheckpointOverhead = 64 << 10;

// x and y of a sample.
int64_t SampleBytes(const TrainConfig& config, int64_t positions) {
  const int64_t sequence = config.set.context * config.set.d_model * kFloat;
  const int64_t wanted = std::min(positions / config.set.context, kMaxSampleBytes / sequence);
  const int64_t sequences = std::clamp<int64_t>(wanted, 1, config.set.training_sequences());
  return 2 * sequences * sequence;
}

int64_t InitializationBytes(const TrainConfig& config) {
  if (config.initialization == Initialization::kCheckpoint) return 0;  // read into the weights
  const int64_t sample = SampleBytes(config, kInitialPositions);
  // And the values of the layer's heads where the weights start from samples.
  return config.initialization == Initialization::kRandom ? sample : 2 * sample;
}

// In double precision: the Gram matrix, then its factor, and a copy of either; the right side, its
// copy and the solution.
int64_t RefitBytes(const LorsaConfig& c) {
  const int64_t n = c.n_ov_heads + 1;
  return (2 * n * n + 3 * n * c.d_model) * int64_t{sizeof(double)};
}

// The sample, its errors, queries and keys.
int64_t ResamplingBytes(const TrainConfig& config) {
  const LorsaConfig& c = config.lorsa;
  const int64_t positions = SampleBytes(config, kResamplePositions) / (2 * c.d_model * kFloat);
  return positions * (3 * c.d_model + 2 * c.n_qk_heads * c.d_qk) * kFloat;
}

int64_t BatchBytes(const TrainConfig& config, int64_t sequences) {
  return sequences * config.set.context * (2 * config.set.d_model * kFloat + 1);
}

// Of the largest share that a rank has, gradients included.
int64_t StepBytes(const TrainConfig& config, int64_t sequences) {
  LorsaConfig largest = config.lorsa;
  if (config.top_k_warmup_fraction > 0) {
    largest.top_k = std::max(largest.top_k, config.initial_top_k);
  }
  const StepShape shape{.sequences = sequences,
                        .context = config.set.context,
                        .aux_top_k = config.aux_coefficient > 0 ? config.aux_top_k : 0};
  return StepMemoryBytes(largest, config.precision, shape, config.threads);
}

// The newest, the first of every so many tokens, and the one being written; and the best, which is
// among the newest as long as each checkpoint is evaluated and FVU falls.
int64_t KeptCheckpoints(const TrainConfig& config) {
  const int64_t tokens = std::max<int64_t>(config.total_tokens, config.tokens_per_step());
  const int64_t made =
      2 + tokens / std::max(config.checkpoint_interval_tokens, config.tokens_per_step());
  const int64_t spaced = config.keep_every_tokens > 0 ? 1 + tokens / config.keep_every_tokens : 0;
  const bool each_evaluated =
      config.checkpoint_interval_steps() % config.evaluation_interval_steps() == 0;
  const int64_t best = each_evaluated ? 0 : 1;
  return std::min(made, config.keep_checkpoints + best + spaced) + 1;
}

}  // namespace

int64_t ResourceEstimate::first_rank() const {
  // A forward pass takes about half of a step.
  const int64_t before = initialization + step / 2;
  // A checkpoint may still be on its way to the disk.
  const int64_t training =
      gradients + step + batches + read_ahead + snapshot + std::max(resampling, refit);
  return process + weights + average + moments + std::max(before, training);
}

void ReturnFreedBlocks() { mallopt(M_MMAP_THRESHOLD, kReturnedBytes); }

ResourceEstimate EstimateResources(const TrainConfig& config) {
  const LorsaConfig& lorsa = config.lorsa;
  const int64_t weights = ParameterCount(lorsa) * kFloat;
  const int64_t average = config.ema_fraction > 0 ? weights : 0;
  const int64_t state = 3 * weights + average + lorsa.n_ov_heads * kLong;
  const int64_t share = (config.sequences_per_step + config.ranks - 1) / config.ranks;
  const int64_t step = StepBytes(config, share);
  // RemoveParallelPart's.
  const int64_t decoder =
      config.decoder_norm > 0 ? 2 * lorsa.n_ov_heads * lorsa.d_model * kFloat : 0;
  return {.process = kProcessBytes,
          .weights = weights,
          .average = average,
          .moments = 2 * weights,
          .gradients = config.ranks > 1 ? 2 * weights : weights,
          .step = step - weights + decoder,
          .snapshot = state,
          .batches = kBatches * BatchBytes(config, config.sequences_per_step),
          .read_ahead = 2 * kStreamBytes,
          .initialization = InitializationBytes(config),
          .resampling = config.resample_interval_fraction > 0 ? ResamplingBytes(config) : 0,
          .refit = config.refit_tokens > 0 ? RefitBytes(lorsa) : 0,
          .other_ranks =
              (config.ranks - 1) * (kProcessBytes + weights + step + BatchBytes(config, share)),
          .checkpoint = state + kCheckpointOverhead,
          .kept_checkpoints = KeptCheckpoints(config)};
}

std::string BytesText(int64_t bytes) {
  if (bytes < int64_t{1} << 30) return absl::StrFormat("%.1f MiB", bytes / double{1 << 20});
  return absl::StrFormat("%.2f GiB", bytes / double{1 << 30});
}

std::string MemoryText(const ResourceEstimate& estimate) {
  std::vector<std::pair<int64_t, const char*>> parts = {{estimate.process, "libraries"},
                                                        {estimate.weights, "weights"},
                                                        {estimate.moments, "Adam"},
                                                        {estimate.gradients, "gradients"},
                                                        {estimate.step, "the step"},
                                                        {estimate.snapshot, "a checkpoint"},
                                                        {estimate.batches, "batches"},
                                                        {estimate.read_ahead, "reading ahead"},
                                                        {estimate.initialization, "initialisation"},
                                                        {estimate.average, "averaged weights"},
                                                        {estimate.resampling, "resampling"},
                                                        {estimate.refit, "the refit"},
                                                        {estimate.other_ranks, "other ranks"}};
  parts.erase(
      std::remove_if(parts.begin(), parts.end(), [](const auto& p) { return p.first == 0; }),
      parts.end());
  std::sort(parts.rbegin(), parts.rend());
  return absl::StrJoin(parts, ", ", [](std::string* out, const auto& part) {
    absl::StrAppend(out, part.second, " ", BytesText(part.first));
  });
}

}  // namespace lorsa::trainer

#include "trainer/train/training_sample.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::trainer {
namespace {

constexpr int64_t kMaxSampleBytes = 256 << 20;  // of x in fp32; y takes as much

int64_t SampleSequences(const TrainConfig& config, int64_t positions) {
  const int64_t bytes = config.set.context * config.set.d_model * int64_t{sizeof(float)};
  const int64_t wanted = std::min(positions / config.set.context, kMaxSampleBytes / bytes);
  return std::clamp<int64_t>(wanted, 1, config.set.training_sequences());
}

}  // namespace

absl::StatusOr<TrainingSample> ReadTrainingSample(const TrainConfig& config, RunHost& host,
                                                  int64_t cursor, int64_t positions,
                                                  at::Device device) {
  LORSA_ASSIGN_OR_RETURN(auto source, host.OpenTraining(cursor));
  BatchReader reader(config, std::move(source), device);
  TrainingSample sample;
  int64_t targets = 0;
  for (int64_t left = SampleSequences(config, positions); left > 0;) {
    const int64_t count = std::min(left, config.sequences_per_step);
    LORSA_ASSIGN_OR_RETURN(LoadedBatch loaded, reader.Next(count));
    if (loaded.empty()) break;
    left -= count;
    targets += loaded.targets;
    if (loaded.targets > 0) sample.push_back(std::move(loaded));
  }
  if (targets < 2) {
    return absl::FailedPreconditionError(absl::StrCat(
        "The training sequences from number ", cursor,
        " on have no two unmasked targets to look at; check the masks of the activation set."));
  }
  return sample;
}

at::Tensor TargetRows(const at::Tensor& tensor, const at::Tensor& mask_BS) {
  return tensor.flatten(0, 1).index_select(0, mask_BS.flatten().nonzero().flatten());
}

}  // namespace lorsa::trainer

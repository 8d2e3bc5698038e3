#include "activation_store/scan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "activation_store/hdf5_library.h"
#include "activation_store/sequence_check.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

constexpr int64_t kTellEveryBytes = 8 << 20;

absl::Status ScanSequence(const ShardReader::Opened& opened, int64_t first, int64_t row,
                          Sequence& sequence, ShardFacts& facts, LargestNorms& norms) {
  const ShardReader& shard = *opened.shard;
  LORSA_RETURN_IF_ERROR(shard.Read(*opened.file, row, sequence));
  const auto examined = ExamineSequence(sequence, shard.shape());
  if (!examined.ok()) {
    return DamagedFile(shard.path(),
                       absl::StrCat("sequence ", row, ": ", examined.status().message()));
  }
  facts.checksums[static_cast<size_t>(row)] = examined->checksum;
  facts.unmasked_tokens += examined->unmasked_tokens;
  facts.input_norm_sum += examined->input_norm_sum;
  facts.output_norm_sum += examined->output_norm_sum;
  norms.Add(first + row, examined->output_norms);
  return absl::OkStatus();
}

}  // namespace

absl::Status ProgressMeter::Advance(int64_t bytes) {
  done_ = std::min(total_, done_ + bytes);
  if (!progress_ || (done_ - told_ < kTellEveryBytes && done_ != total_)) return absl::OkStatus();
  told_ = done_;
  if (progress_(done_, total_)) return absl::OkStatus();
  return absl::CancelledError("the pass over the activation set was cancelled");
}

bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
         absl::IsOutOfRange(status);
}

absl::StatusOr<ShardFacts> ScanShard(FileSystem& fs, const ShardReader::Opened& opened,
                                     int64_t first, ProgressMeter& progress,
                                     const DamageFunction& on_damage, LargestNorms& norms) {
  const int64_t sequences = opened.shard->shape().sequences;
  ShardFacts facts = {.bytes = static_cast<int64_t>(opened.file->size())};
  Sha256 hash;
  LORSA_RETURN_IF_ERROR(HashFile(fs, opened.shard->path(), hash, [&](uint64_t bytes) {
                          return progress.Advance(static_cast<int64_t>(bytes));
                        }).status());
  facts.sha256 = hash.HexDigest();
  facts.checksums.resize(static_cast<size_t>(sequences));
  Sequence sequence;
  int64_t told = 0;
  for (int64_t row = 0; row < sequences; ++row) {
    const absl::Status status = ScanSequence(opened, first, row, sequence, facts, norms);
    if (!status.ok() && !IsDamage(status)) return status;
    if (!status.ok()) LORSA_RETURN_IF_ERROR(on_damage(status));
    // The file's bytes shared out evenly, so that compressed shards end at 100 % too.
    const int64_t read = static_cast<int64_t>(static_cast<double>(facts.bytes) * (row + 1) /
                                              static_cast<double>(sequences));
    LORSA_RETURN_IF_ERROR(progress.Advance(read - told));
    told = read;
  }
  return facts;
}

}  // namespace lorsa::store

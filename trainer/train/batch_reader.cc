#include "trainer/train/batch_reader.h"

#include <ATen/ATen.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace lorsa::trainer {
namespace {

at::ScalarType TorchType(store::ElementType type) {
  switch (type) {
    case store::ElementType::kBFloat16:
      return at::kBFloat16;
    case store::ElementType::kFloat16:
      return at::kHalf;
    case store::ElementType::kFloat32:
      return at::kFloat;
  }
  return at::kFloat;
}

absl::Status Damaged(int64_t sequence, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("Sequence ", sequence, " of the activation set ", what,
                                          "; verify the set and produce it again."));
}

absl::Status CheckFinite(const LoadedBatch& loaded) {
  const Batch& batch = loaded.batch;
  if (batch.x.isfinite().all().item<bool>() && batch.y.isfinite().all().item<bool>()) {
    return absl::OkStatus();
  }
  for (size_t i = 0; i < loaded.sequences.size(); ++i) {
    if (!batch.x[i].isfinite().all().item<bool>()) {
      return Damaged(loaded.sequences[i], "has NaN or Inf in mhsa_input");
    }
    if (!batch.y[i].isfinite().all().item<bool>()) {
      return Damaged(loaded.sequences[i], "has NaN or Inf in mhsa_output");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string SequencesText(const std::vector<int64_t>& sequences) {
  return absl::StrCat("sequences ", absl::StrJoin(sequences, ", "), " of the activation set");
}

absl::StatusOr<LoadedBatch> BatchReader::Next(int64_t count) {
  const int64_t S = config_.set.context, d = config_.set.d_model;
  LoadedBatch loaded;
  Batch rows{.x = at::empty({count, S, d}),
             .y = at::empty({count, S, d}),
             .mask = at::empty({count, S}, at::kBool)};
  while (static_cast<int64_t>(loaded.sequences.size()) < count) {
    const absl::Time start = host_.Now();
    const absl::Status status = source_->Next(sequence_);
    loaded.waited += host_.Now() - start;
    if (absl::IsOutOfRange(status)) break;
    LORSA_RETURN_IF_ERROR(status);
    LORSA_RETURN_IF_ERROR(Unpack(sequence_, static_cast<int64_t>(loaded.sequences.size()), rows));
    loaded.sequences.push_back(sequence_.index);
  }
  if (loaded.empty()) return loaded;
  const int64_t got = static_cast<int64_t>(loaded.sequences.size());
  loaded.batch = {.x = rows.x.narrow(0, 0, got).to(device_).mul_(config_.input_scale()),
                  .y = rows.y.narrow(0, 0, got).to(device_).mul_(config_.output_scale()),
                  .mask = rows.mask.narrow(0, 0, got).to(device_)};
  LORSA_RETURN_IF_ERROR(CheckFinite(loaded));
  loaded.targets = loaded.batch.mask.sum().item<int64_t>();
  return loaded;
}

absl::Status BatchReader::Unpack(const store::Sequence& sequence, int64_t row, Batch& out) const {
  const size_t positions = config_.set.context;
  const size_t bytes =
      positions * config_.set.d_model * store::ElementSize(config_.set.element_type);
  if (sequence.mhsa_input.size() != bytes || sequence.mhsa_output.size() != bytes ||
      sequence.mask.size() != positions) {
    return Damaged(sequence.index, "has not the size that the manifest gives");
  }
  out.x[row].copy_(Elements(sequence.mhsa_input));
  out.y[row].copy_(Elements(sequence.mhsa_output));
  out.mask[row].copy_(
      at::from_blob(const_cast<char*>(sequence.mask.data()), {config_.set.context}, at::kByte));
  return absl::OkStatus();
}

at::Tensor BatchReader::Elements(const std::string& bytes) const {
  return at::from_blob(const_cast<char*>(bytes.data()), {config_.set.context, config_.set.d_model},
                       TorchType(config_.set.element_type));
}

}  // namespace lorsa::trainer

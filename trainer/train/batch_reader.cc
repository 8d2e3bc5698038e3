#include "trainer/train/batch_reader.h"

#include <ATen/ATen.h>

#include <cstring>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace lorsa::trainer {
namespace {

absl::Status Damaged(int64_t sequence, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("Sequence ", sequence, " of the activation set ", what,
                                          "; verify the set and produce it again."));
}

float ToFloat(float element) { return element; }
float ToFloat(c10::Half element) { return static_cast<float>(element); }
float ToFloat(c10::BFloat16 element) { return static_cast<float>(element); }

// `count` elements of type T from `bytes`, times `scale`; whether all are finite.
template <typename T>
bool ScaleElements(const std::string& bytes, float scale, int64_t count, float* out) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t not_finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = ToFloat(element) * scale;
    not_finite |= (absl::bit_cast<uint32_t>(out[i]) & kExponent) == kExponent;
  }
  return not_finite == 0;
}

bool ScaleElements(store::ElementType type, const std::string& bytes, double scale,
                   at::Tensor out) {
  const auto factor = static_cast<float>(scale);
  auto* const data = out.mutable_data_ptr<float>();
  switch (type) {
    case store::ElementType::kBFloat16:
      return ScaleElements<c10::BFloat16>(bytes, factor, out.numel(), data);
    case store::ElementType::kFloat16:
      return ScaleElements<c10::Half>(bytes, factor, out.numel(), data);
    case store::ElementType::kFloat32:
      break;
  }
  return ScaleElements<float>(bytes, factor, out.numel(), data);
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
    const absl::Status status = source_->Next(sequence_);
    if (absl::IsOutOfRange(status)) break;
    LORSA_RETURN_IF_ERROR(status);
    LORSA_RETURN_IF_ERROR(
        Unpack(sequence_, static_cast<int64_t>(loaded.sequences.size()), rows, loaded.targets));
    loaded.sequences.push_back(sequence_.index);
  }
  if (loaded.empty()) return loaded;
  const int64_t got = static_cast<int64_t>(loaded.sequences.size());
  loaded.batch = {.x = rows.x.narrow(0, 0, got).to(device_),
                  .y = rows.y.narrow(0, 0, got).to(device_),
                  .mask = rows.mask.narrow(0, 0, got).to(device_)};
  rows.mask.narrow(0, got, count - got).fill_(false);
  loaded.target_variance = TargetVariance(rows, loaded.targets);
  return loaded;
}

// By hand, as all here, so that no threads are taken from the computation.
double BatchReader::TargetVariance(const Batch& batch, int64_t targets) const {
  if (targets == 0) return 0;
  const int64_t d = config_.set.d_model;
  const bool* const mask = batch.mask.const_data_ptr<bool>();
  const float* const y = batch.y.const_data_ptr<float>();
  std::vector<double> sums(d);
  double squares = 0;
  for (int64_t t = 0; t < batch.mask.numel(); ++t) {
    if (!mask[t]) continue;
    for (int64_t i = 0; i < d; ++i) {
      const double element = y[t * d + i];
      sums[i] += element;
      squares += element * element;
    }
  }
  for (const double sum : sums) squares -= sum * sum / static_cast<double>(targets);
  return squares;
}

absl::Status BatchReader::Unpack(const store::Sequence& sequence, int64_t row, Batch& out,
                                 int64_t& targets) const {
  const store::ElementType type = config_.set.element_type;
  const size_t positions = config_.set.context;
  const size_t bytes = positions * config_.set.d_model * store::ElementSize(type);
  if (sequence.mhsa_input.size() != bytes || sequence.mhsa_output.size() != bytes ||
      sequence.mask.size() != positions) {
    return Damaged(sequence.index, "has not the size that the manifest gives");
  }
  if (!ScaleElements(type, sequence.mhsa_input, config_.input_scale(), out.x[row])) {
    return Damaged(sequence.index, "has NaN or Inf in mhsa_input");
  }
  if (!ScaleElements(type, sequence.mhsa_output, config_.output_scale(), out.y[row])) {
    return Damaged(sequence.index, "has NaN or Inf in mhsa_output");
  }
  bool* const mask = out.mask[row].mutable_data_ptr<bool>();
  for (size_t i = 0; i < positions; ++i) {
    mask[i] = sequence.mask[i] != 0;
    targets += mask[i];
  }
  return absl::OkStatus();
}

}  // namespace lorsa::trainer

#include "trainer/train/training_state.h"

#include <ATen/ATen.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "base/status_macros.h"

namespace lorsa::trainer {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "lorsa-training-state";
constexpr char kFp32[] = "fp32";
constexpr char kBf16[] = "bf16";
constexpr int kFormatVersion = 1;
constexpr int64_t kAnyCount = std::numeric_limits<int64_t>::max();
constexpr char kTrained[] = "trained.";
constexpr char kMean[] = "adam.mean.";
constexpr char kVariance[] = "adam.variance.";
constexpr char kTokensSinceFired[] = "tokens_since_fired";

template <typename T>
json OrNull(const std::optional<T>& value) {
  return value.has_value() ? json(*value) : json();
}

Precision TakePrecision(JsonFields& fields) {
  const std::string name = fields.Text("precision");
  if (name != kFp32 && name != kBf16) fields.Fail("precision", "is not fp32 or bf16");
  return name == kBf16 ? Precision::kBf16 : Precision::kFp32;
}

uint64_t TakeSeed(JsonFields& fields) {
  const json& seed = fields.Required("seed");
  if (!seed.is_number_unsigned()) fields.Fail("seed", "is not a whole number of at least 0");
  return seed.is_number_unsigned() ? seed.get<uint64_t>() : 0;
}

std::optional<double> TakeFvu(JsonFields& fields, const std::string& key) {
  if (fields.Nullable(key) == nullptr) return std::nullopt;
  return fields.NotNegative(key);
}

void Append(const LorsaConfig& config, const std::string& prefix, const LorsaParameters& tensors,
            NamedTensors& out) {
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    out.emplace_back(prefix + spec.name, tensors.*spec.member);
  }
}

absl::StatusOr<LorsaParameters> ReadAll(const LorsaConfig& config, const std::string& prefix,
                                        const TensorFile& file, at::Device device) {
  LorsaParameters out;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    LORSA_ASSIGN_OR_RETURN(const at::Tensor tensor,
                           file.Read(prefix + spec.name, at::kFloat, spec.shape));
    out.*spec.member = tensor.to(device);
  }
  return out;
}

}  // namespace

std::string FormatTrainingCounts(const TrainingCounts& counts) {
  const json value = {{"format", kFormat},
                      {"format_version", kFormatVersion},
                      {"step", counts.step},
                      {"sequences_consumed", counts.sequences_consumed},
                      {"seed", counts.seed},
                      {"precision", counts.precision == Precision::kBf16 ? kBf16 : kFp32},
                      {"skipped_batches", counts.skipped_batches},
                      {"evaluated_step", OrNull(counts.evaluated_step)},
                      {"fvu", OrNull(counts.fvu)},
                      {"best_fvu", OrNull(counts.best_fvu)},
                      {"refitted", counts.refitted},
                      {"rollbacks", RollbacksToJson(counts.rollbacks)}};
  return value.dump(2) + "\n";
}

absl::StatusOr<TrainingCounts> ParseTrainingCounts(absl::string_view text) {
  LORSA_ASSIGN_OR_RETURN(const json value, ParseJsonObject(text, /*max_depth=*/3));
  JsonFields fields(value, "");
  if (fields.Text("format") != kFormat) fields.Fail("format", "is not lorsa-training-state");
  fields.Integer("format_version", kFormatVersion, kFormatVersion);
  TrainingCounts counts{.step = fields.Integer("step", 0, kAnyCount),
                        .sequences_consumed = fields.Integer("sequences_consumed", 0, kAnyCount),
                        .seed = TakeSeed(fields),
                        .precision = TakePrecision(fields),
                        .fvu = TakeFvu(fields, "fvu"),
                        .best_fvu = TakeFvu(fields, "best_fvu"),
                        .refitted = fields.Boolean("refitted")};
  counts.skipped_batches = fields.Integer("skipped_batches", 0, counts.step);
  if (fields.Nullable("evaluated_step") != nullptr) {
    counts.evaluated_step = fields.Integer("evaluated_step", 0, counts.step);
  }
  counts.rollbacks = TakeRollbacks(fields, "rollbacks");
  LORSA_RETURN_IF_ERROR(fields.Finish());
  return counts;
}

NamedTensors WeightTensors(const LorsaConfig& config, const TrainingState& state) {
  NamedTensors out;
  Append(config, "", state.published(), out);
  return out;
}

NamedTensors StateTensors(const LorsaConfig& config, const TrainingState& state) {
  NamedTensors out;
  if (state.averaged) Append(config, kTrained, state.parameters, out);
  Append(config, kMean, state.adam.mean, out);
  Append(config, kVariance, state.adam.variance, out);
  out.emplace_back(kTokensSinceFired, state.tokens_since_fired);
  return out;
}

absl::StatusOr<LorsaParameters> ReadWeights(const LorsaConfig& config, const TensorFile& weights,
                                            at::Device device) {
  return ReadAll(config, "", weights, device);
}

absl::StatusOr<TrainingState> ReadState(const LorsaConfig& config, const TrainingCounts& counts,
                                        const TensorFile& weights, const TensorFile& file,
                                        at::Device device) {
  TrainingState state;
  state.counts = counts;
  LORSA_ASSIGN_OR_RETURN(LorsaParameters published, ReadWeights(config, weights, device));
  if (file.Has(std::string(kTrained) + "W_V")) {
    LORSA_ASSIGN_OR_RETURN(state.parameters, ReadAll(config, kTrained, file, device));
    state.averaged = std::move(published);
  } else {
    state.parameters = std::move(published);
  }
  state.adam.steps = counts.step - counts.skipped_batches;
  LORSA_ASSIGN_OR_RETURN(state.adam.mean, ReadAll(config, kMean, file, device));
  LORSA_ASSIGN_OR_RETURN(state.adam.variance, ReadAll(config, kVariance, file, device));
  LORSA_ASSIGN_OR_RETURN(const at::Tensor tokens,
                         file.Read(kTokensSinceFired, at::kLong, {config.n_ov_heads}));
  state.tokens_since_fired = tokens.to(device);
  return state;
}

}  // namespace lorsa::trainer

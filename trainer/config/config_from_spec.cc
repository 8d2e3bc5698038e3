#include "trainer/config/config_from_spec.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::worker {
namespace {

absl::Status UnknownValue(absl::string_view field, int value) {
  return absl::InvalidArgumentError(absl::StrCat(
      field, " has the value ", value, ", which this worker does not know; update lorsa-worker"));
}

store::Rope FromMessage(const v1::Rope& message) {
  store::Rope rope{.base = message.base(),
                   .rotary_dim = message.rotary_dim(),
                   .adjacent_pairs = message.adjacent_pairs()};
  if (message.has_ntk_by_parts()) {
    const v1::NtkByParts& ntk = message.ntk_by_parts();
    rope.ntk_by_parts = {.factor = ntk.factor(),
                         .low_freq_factor = ntk.low_freq_factor(),
                         .high_freq_factor = ntk.high_freq_factor(),
                         .original_context = ntk.original_context()};
  }
  return rope;
}

absl::StatusOr<trainer::Selection> FromMessage(v1::Selection selection) {
  switch (selection) {
    case v1::SELECTION_RELU:
      return trainer::Selection::kRelu;
    case v1::SELECTION_SIGNED:
      return trainer::Selection::kSigned;
    default:
      return UnknownValue("selection", selection);
  }
}

absl::StatusOr<trainer::Initialization> FromMessage(v1::Initialization initialization) {
  switch (initialization) {
    case v1::INITIALIZATION_RANDOM:
      return trainer::Initialization::kRandom;
    case v1::INITIALIZATION_FROM_ATTENTION:
      return trainer::Initialization::kFromAttention;
    case v1::INITIALIZATION_DATA_SAMPLED:
      return trainer::Initialization::kDataSampled;
    case v1::INITIALIZATION_CHECKPOINT:
      return trainer::Initialization::kCheckpoint;
    default:
      return UnknownValue("initialization", initialization);
  }
}

absl::StatusOr<trainer::LearningRateSchedule> FromMessage(v1::LearningRateSchedule schedule) {
  switch (schedule) {
    case v1::LEARNING_RATE_SCHEDULE_WARMUP_STABLE_DECAY:
      return trainer::LearningRateSchedule::kWarmupStableDecay;
    case v1::LEARNING_RATE_SCHEDULE_COSINE:
      return trainer::LearningRateSchedule::kCosine;
    case v1::LEARNING_RATE_SCHEDULE_CONSTANT:
      return trainer::LearningRateSchedule::kConstant;
    default:
      return UnknownValue("learning_rate_schedule", schedule);
  }
}

absl::StatusOr<trainer::Precision> FromMessage(v1::Precision precision) {
  switch (precision) {
    case v1::PRECISION_FP32:
      return trainer::Precision::kFp32;
    case v1::PRECISION_BF16:
      return trainer::Precision::kBf16;
    default:
      return UnknownValue("precision", precision);
  }
}

absl::StatusOr<trainer::TopKWarmup> FromMessage(v1::TopKWarmup warmup) {
  switch (warmup) {
    case v1::TOP_K_WARMUP_LINEAR:
      return trainer::TopKWarmup::kLinear;
    case v1::TOP_K_WARMUP_EXPONENTIAL:
      return trainer::TopKWarmup::kExponential;
    default:
      return UnknownValue("top_k_warmup", warmup);
  }
}

absl::StatusOr<store::ElementType> FromMessage(v1::ElementType type) {
  switch (type) {
    case v1::ELEMENT_TYPE_BF16:
      return store::ElementType::kBFloat16;
    case v1::ELEMENT_TYPE_FP16:
      return store::ElementType::kFloat16;
    case v1::ELEMENT_TYPE_FP32:
      return store::ElementType::kFloat32;
    default:
      return UnknownValue("element_type", type);
  }
}

store::AttentionGeometry FromMessage(const v1::AttentionGeometry& message) {
  store::AttentionGeometry attention{.n_heads = message.n_heads(),
                                     .n_kv_heads = message.n_kv_heads(),
                                     .d_head = message.d_head(),
                                     .attn_scale = message.attn_scale()};
  if (message.has_rope()) attention.rope = FromMessage(message.rope());
  if (message.has_qk_norm()) attention.qk_norm = {.epsilon = message.qk_norm().epsilon()};
  return attention;
}

// The parts of the manifest that training needs; files and provenance stay with the server.
absl::StatusOr<store::Manifest> ManifestFromMessage(const v1::ActivationSet& set) {
  store::Manifest manifest;
  manifest.model = set.model();
  manifest.model_revision = set.model_revision();
  manifest.layer = set.layer();
  manifest.hook_convention = set.hook_convention();
  if (set.has_attention()) manifest.attention = FromMessage(set.attention());
  manifest.d_model = set.d_model();
  manifest.context = set.context();
  LORSA_ASSIGN_OR_RETURN(manifest.element_type, FromMessage(set.element_type()));
  manifest.sequences = set.sequences();
  manifest.unmasked_tokens = set.unmasked_tokens();
  manifest.mean_input_norm = set.mean_input_norm();
  manifest.mean_output_norm = set.mean_output_norm();
  return manifest;
}

absl::StatusOr<trainer::LorsaConfig> LorsaFromSpec(const v1::TrainingSpec& spec,
                                                   const v1::ActivationSet& set) {
  trainer::LorsaConfig lorsa{.d_model = set.d_model(),
                             .n_ov_heads = spec.n_ov_heads(),
                             .n_qk_heads = spec.n_qk_heads(),
                             .d_qk = spec.d_qk(),
                             .top_k = spec.top_k(),
                             .select_by_decoder_norm = spec.select_by_decoder_norm(),
                             .decoder_bias = spec.decoder_bias(),
                             .attn_scale = spec.attn_scale()};
  LORSA_ASSIGN_OR_RETURN(lorsa.selection, FromMessage(spec.selection()));
  if (spec.has_rope()) lorsa.rope = FromMessage(spec.rope());
  if (spec.has_qk_norm()) lorsa.qk_norm = {.epsilon = spec.qk_norm().epsilon()};
  return lorsa;
}

absl::Status FillRecipe(const v1::TrainingSpec& spec, trainer::TrainConfig& config) {
  LORSA_ASSIGN_OR_RETURN(config.schedule, FromMessage(spec.learning_rate_schedule()));
  config.w_v_learning_rate_factor = spec.w_v_learning_rate_factor();
  config.w_o_learning_rate_factor = spec.w_o_learning_rate_factor();
  config.bias_learning_rate_factor = spec.bias_learning_rate_factor();
  config.top_k_warmup_fraction = spec.top_k_warmup_fraction();
  config.initial_top_k = spec.initial_top_k();
  LORSA_ASSIGN_OR_RETURN(config.top_k_warmup, FromMessage(spec.top_k_warmup()));
  config.decoder_norm = spec.decoder_norm();
  config.dead_after_fraction = spec.dead_after_fraction();
  config.aux_coefficient = spec.aux_coefficient();
  config.aux_top_k = spec.aux_top_k();
  config.resample_interval_fraction = spec.resample_interval_fraction();
  config.resample_until_fraction = spec.resample_until_fraction();
  config.resample_firing_factor = spec.resample_firing_factor();
  config.ema_fraction = spec.ema_fraction();
  config.refit_tokens = static_cast<int64_t>(spec.refit_tokens());
  config.refit_ridge = spec.refit_ridge();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<trainer::TrainConfig> ConfigFromSpec(const v1::TrainingSpec& spec,
                                                    const v1::ActivationSet& set) {
  trainer::TrainConfig config;
  LORSA_ASSIGN_OR_RETURN(config.lorsa, LorsaFromSpec(spec, set));
  LORSA_ASSIGN_OR_RETURN(config.set, ManifestFromMessage(set));
  LORSA_ASSIGN_OR_RETURN(config.initialization, FromMessage(spec.initialization()));
  config.total_tokens = static_cast<int64_t>(spec.tokens());
  config.sequences_per_step = spec.sequences_per_step();
  config.learning_rate = spec.learning_rate();
  config.qk_learning_rate_factor = spec.qk_learning_rate_factor();
  config.warmup_fraction = spec.warmup_fraction();
  config.decay_fraction = spec.decay_fraction();
  config.final_learning_rate_factor = spec.final_learning_rate_factor();
  config.adam_beta1 = spec.adam_beta1();
  config.adam_beta2 = spec.adam_beta2();
  config.adam_epsilon = spec.adam_epsilon();
  config.max_gradient_norm = spec.max_gradient_norm();
  config.seed = spec.seed();
  config.ranks = static_cast<int>(spec.ranks());
  config.threads = static_cast<int>(spec.threads());
  LORSA_ASSIGN_OR_RETURN(config.precision, FromMessage(spec.precision()));
  config.evaluation_interval_tokens = static_cast<int64_t>(spec.evaluation_interval_tokens());
  config.checkpoint_interval_tokens = static_cast<int64_t>(spec.checkpoint_interval_tokens());
  LORSA_RETURN_IF_ERROR(FillRecipe(spec, config));
  config.max_rollbacks = spec.max_rollbacks();
  config.keep_checkpoints = spec.keep_checkpoints();
  config.keep_every_tokens = static_cast<int64_t>(spec.keep_every_tokens());
  LORSA_RETURN_IF_ERROR(trainer::ValidateTrainConfig(config));
  return config;
}

}  // namespace lorsa::worker

#include "trainer/config/checkpoint_config.h"

#include <nlohmann/json.hpp>

#include "activation_store/position_json.h"
#include "base/json_fields.h"
#include "base/status_macros.h"

namespace lorsa::trainer {
namespace {

using nlohmann::json;

constexpr char kFormat[] = "lorsa-checkpoint";
constexpr int kFormatVersion = 1;
constexpr int kMaxJsonDepth = 3;
constexpr int64_t kAnySize = int64_t{1} << 40;  // ValidateLorsaConfig has the true bounds.

Selection TakeSelection(JsonFields& fields) {
  const std::string name = fields.Text("selection");
  if (name != "relu" && name != "signed") fields.Fail("selection", "is not relu or signed");
  return name == "signed" ? Selection::kSigned : Selection::kRelu;
}

LorsaConfig TakeLorsa(JsonFields& fields) {
  LorsaConfig lorsa{.d_model = fields.Integer("d_model", 1, kAnySize),
                    .n_ov_heads = fields.Integer("n_ov_heads", 1, kAnySize),
                    .n_qk_heads = fields.Integer("n_qk_heads", 1, kAnySize),
                    .d_qk = fields.Integer("d_qk", 1, kAnySize),
                    .top_k = fields.Integer("top_k", 1, kAnySize),
                    .selection = TakeSelection(fields),
                    .select_by_decoder_norm = fields.Boolean("select_by_decoder_norm"),
                    .decoder_bias = fields.Boolean("decoder_bias"),
                    .attn_scale = fields.Positive("attn_scale")};
  lorsa.rope = store::TakeRope(fields, lorsa.d_qk);
  lorsa.qk_norm = store::TakeQkNorm(fields);
  return lorsa;
}

void TakeOrigin(JsonFields& fields, CheckpointConfig& config) {
  config.context = fields.Integer("context", 1, store::kMaxContext);
  config.input_scale = fields.Positive("input_scale");
  config.output_scale = fields.Positive("output_scale");
  config.hook_convention = fields.Text("hook_convention");
  config.layer = fields.Integer("layer", 0, kAnySize);
  JsonFields model(fields.Required("model"), "model");
  config.model = model.Text("name");
  config.model_revision = model.Text("revision");
  fields.Take(model.Finish());
}

}  // namespace

CheckpointConfig CheckpointConfigOf(const TrainConfig& config) {
  return {.lorsa = config.lorsa,
          .context = config.set.context,
          .input_scale = config.input_scale(),
          .output_scale = config.output_scale(),
          .hook_convention = config.set.hook_convention,
          .model = config.set.model,
          .model_revision = config.set.model_revision,
          .layer = config.set.layer};
}

std::string FormatCheckpointConfig(const CheckpointConfig& config) {
  const LorsaConfig& lorsa = config.lorsa;
  // nlohmann's plain json keeps its keys sorted.
  const json value = {{"format", kFormat},
                      {"format_version", kFormatVersion},
                      {"d_model", lorsa.d_model},
                      {"n_ov_heads", lorsa.n_ov_heads},
                      {"n_qk_heads", lorsa.n_qk_heads},
                      {"d_qk", lorsa.d_qk},
                      {"top_k", lorsa.top_k},
                      {"selection", lorsa.selection == Selection::kSigned ? "signed" : "relu"},
                      {"select_by_decoder_norm", lorsa.select_by_decoder_norm},
                      {"decoder_bias", lorsa.decoder_bias},
                      {"attn_scale", lorsa.attn_scale},
                      {"rope", json(store::RopeJson(lorsa.rope))},
                      {"qk_norm", json(store::QkNormJson(lorsa.qk_norm))},
                      {"context", config.context},
                      {"input_scale", config.input_scale},
                      {"output_scale", config.output_scale},
                      {"hook_convention", config.hook_convention},
                      {"model", {{"name", config.model}, {"revision", config.model_revision}}},
                      {"layer", config.layer}};
  return value.dump(2) + "\n";
}

absl::StatusOr<CheckpointConfig> ParseCheckpointConfig(absl::string_view text) {
  LORSA_ASSIGN_OR_RETURN(const json value, ParseJsonObject(text, kMaxJsonDepth));
  JsonFields fields(value, "");
  if (fields.Text("format") != kFormat) fields.Fail("format", "is not lorsa-checkpoint");
  fields.Integer("format_version", kFormatVersion, kFormatVersion);
  CheckpointConfig config{.lorsa = TakeLorsa(fields)};
  TakeOrigin(fields, config);
  LORSA_RETURN_IF_ERROR(fields.Finish());
  if (const absl::Status status = ValidateLorsaConfig(config.lorsa); !status.ok()) {
    return absl::DataLossError(status.message());
  }
  return config;
}

}  // namespace lorsa::trainer

#include "activation_store/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "activation_store/position_json.h"
#include "base/json_fields.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kFormat[] = "lorsa-activation-set";
constexpr int64_t kFormatVersion = 1;
// What mhsa_input may be (docs/activation_format.md): after the norm's gain and bias, or before.
constexpr absl::string_view kHookConventions[] = {"transformers.self_attn",
                                                  "transformer_lens.ln1.hook_normalized"};
constexpr int kMaxJsonDepth = 5;
constexpr int64_t kMaxLayers = 1 << 16;
constexpr int64_t kMaxHeads = 1 << 16;
constexpr int64_t kMaxFileBytes = int64_t{1} << 44;  // so that sums over a set fit

absl::StatusOr<json> ParseJson(absl::string_view text) {
  if (text.size() > kMaxManifestBytes) return absl::DataLossError("it is longer than 32 MiB");
  return ParseJsonObject(text, kMaxJsonDepth);
}

absl::StatusOr<AttentionGeometry> ParseAttention(const json& value) {
  JsonFields fields(value, "attention");
  AttentionGeometry attention = {.n_heads = fields.Integer("n_heads", 1, kMaxHeads),
                                 .n_kv_heads = fields.Integer("n_kv_heads", 1, kMaxHeads),
                                 .d_head = fields.Integer("d_head", 1, kMaxDModel),
                                 .attn_scale = fields.Positive("attn_scale")};
  if (attention.n_heads % attention.n_kv_heads != 0) {
    fields.Fail(fields.Path("n_kv_heads"), "does not divide n_heads");
  }
  attention.rope = TakeRope(fields, attention.d_head);
  attention.qk_norm = TakeQkNorm(fields);
  LORSA_RETURN_IF_ERROR(fields.Finish());
  return attention;
}

void ParseModel(JsonFields& fields, Manifest& manifest) {
  JsonFields model(fields.Required("model"), "model");
  manifest.model = model.Text("name");
  manifest.model_revision = model.Text("revision");
  fields.Take(model.Finish());
}

void ParseHookConvention(JsonFields& fields, Manifest& manifest) {
  manifest.hook_convention = fields.Text("hook_convention");
  if (absl::c_linear_search(kHookConventions, manifest.hook_convention)) return;
  fields.Fail("hook_convention",
              absl::StrCat("is not one of ", absl::StrJoin(kHookConventions, ", ")));
}

void ParseCreated(JsonFields& fields, Manifest& manifest) {
  manifest.created = fields.Text("created");
  absl::Time time;
  if (!absl::ParseTime(absl::RFC3339_full, manifest.created, &time, nullptr) ||
      time == absl::InfiniteFuture() || time == absl::InfinitePast()) {
    fields.Fail("created", "is not a time in the form 2026-11-30T12:00:00Z");
  }
}

void ParseAttentionMember(JsonFields& fields, Manifest& manifest) {
  const json* attention = fields.Nullable("attention");
  if (attention == nullptr) return;
  auto parsed = ParseAttention(*attention);
  fields.Take(parsed.status());
  if (parsed.ok()) manifest.attention = *std::move(parsed);
}

// `file` must be the name that the format gives it, so no path leads out of the folder.
FileRecord ParseFileRecord(JsonFields& fields, absl::string_view file) {
  FileRecord record = {.file = fields.Text("file"),
                       .bytes = fields.Integer("bytes", 1, kMaxFileBytes),
                       .sha256 = fields.Text("sha256")};
  if (record.file != file) fields.Fail(fields.Path("file"), absl::StrCat("is not '", file, "'"));
  const bool hex = std::all_of(record.sha256.begin(), record.sha256.end(), [](char c) {
    return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
  });
  if (record.sha256.size() != 64 || !hex) {
    fields.Fail(fields.Path("sha256"), "is not 64 lower-case hex digits");
  }
  return record;
}

void ParseShards(JsonFields& fields, Manifest& manifest) {
  const json& shards = fields.Required("shards");
  if (!shards.is_array() || shards.empty() || shards.size() > kMaxShards) {
    fields.Fail("shards", absl::StrCat("is not a list of 1 to ", kMaxShards, " shards"));
    return;
  }
  int64_t sequences = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    JsonFields shard(shards[i], absl::StrCat("shards[", i, "]"));
    ShardRecord record{ParseFileRecord(shard, ShardFile(static_cast<int64_t>(i))),
                       shard.Integer("sequences", 1, kMaxShardSequences)};
    fields.Take(shard.Finish());
    sequences += record.sequences;
    manifest.shards.push_back(std::move(record));
  }
  if (sequences != manifest.sequences) {
    fields.Fail("sequences",
                absl::StrCat("is ", manifest.sequences, " but the shards have ", sequences));
  }
}

void ParseFiles(JsonFields& fields, Manifest& manifest) {
  ParseShards(fields, manifest);
  JsonFields checksums(fields.Required("checksums"), "checksums");
  manifest.checksums = ParseFileRecord(checksums, kChecksumsFile);
  fields.Take(checksums.Finish());
  if (const json* value = fields.Nullable("attention_weights")) {
    JsonFields weights(*value, "attention_weights");
    manifest.attention_weights = ParseFileRecord(weights, kAttentionFile);
    fields.Take(weights.Finish());
  }
}

void ParseContents(JsonFields& fields, Manifest& manifest) {
  manifest.d_model = fields.Integer("d_model", 1, kMaxDModel);
  manifest.context = fields.Integer("context", 1, kMaxContext);
  const std::string type = fields.Text("element_type");
  bool known = false;
  for (ElementType candidate :
       {ElementType::kBFloat16, ElementType::kFloat16, ElementType::kFloat32}) {
    if (type != ElementTypeName(candidate)) continue;
    manifest.element_type = candidate;
    known = true;
  }
  if (!known) fields.Fail("element_type", "is not bf16, fp16 or fp32");
  const absl::Status shape =
      CheckSequenceShape(manifest.context, manifest.d_model, manifest.element_type);
  if (!shape.ok()) fields.Take(absl::DataLossError(shape.message()));
  manifest.sequences = fields.Integer("sequences", 1, kMaxShards * kMaxShardSequences);
  manifest.unmasked_tokens =
      fields.Integer("unmasked_tokens", 0, manifest.sequences * manifest.context);
  JsonFields norms(fields.Required("mean_norm"), "mean_norm");
  manifest.mean_input_norm = norms.NotNegative("mhsa_input");
  manifest.mean_output_norm = norms.NotNegative("mhsa_output");
  fields.Take(norms.Finish());
}

ordered_json AttentionJson(const AttentionGeometry& attention) {
  return {{"n_heads", attention.n_heads},     {"n_kv_heads", attention.n_kv_heads},
          {"d_head", attention.d_head},       {"attn_scale", attention.attn_scale},
          {"rope", RopeJson(attention.rope)}, {"qk_norm", QkNormJson(attention.qk_norm)}};
}

ordered_json FileJson(const FileRecord& record) {
  return {{"file", record.file}, {"bytes", record.bytes}, {"sha256", record.sha256}};
}

ordered_json DescriptionJson(const Manifest& manifest) {
  ordered_json value;
  value["model"] = {{"name", manifest.model}, {"revision", manifest.model_revision}};
  value["layer"] = manifest.layer;
  value["hook_convention"] = manifest.hook_convention;
  value["attention"] = nullptr;
  if (manifest.attention.has_value()) value["attention"] = AttentionJson(*manifest.attention);
  return value;
}

// Text that is not UTF-8 is written with replacement characters rather than thrown about.
std::string Dump(const ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

std::string ShardFile(int64_t shard) { return absl::StrFormat("shard-%05d.h5", shard); }

int64_t ElementSize(ElementType type) { return type == ElementType::kFloat32 ? 4 : 2; }

absl::string_view ElementTypeName(ElementType type) {
  switch (type) {
    case ElementType::kBFloat16:
      return "bf16";
    case ElementType::kFloat16:
      return "fp16";
    case ElementType::kFloat32:
      return "fp32";
  }
  return "";
}

int64_t Manifest::held_out_sequences() const {
  return std::min(sequences, std::max<int64_t>(128, (sequences + 49) / 50));
}

absl::Status CheckSequenceShape(int64_t context, int64_t d_model, ElementType type) {
  if (context < 1 || context > kMaxContext || d_model < 1 || d_model > kMaxDModel ||
      2 * context * d_model * ElementSize(type) > kMaxSequenceBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sequences of ", context, " positions and ", d_model, " dimensions are out of bounds (",
        kMaxContext, " positions, ", kMaxDModel, " dimensions, 1 GiB a sequence)"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  LORSA_ASSIGN_OR_RETURN(const json value, ParseJson(text));
  JsonFields fields(value, "");
  Manifest manifest;
  if (fields.Text("format") != kFormat) {
    fields.Fail("format", absl::StrCat("is not '", kFormat, "'"));
  }
  fields.Integer("format_version", kFormatVersion, kFormatVersion);
  ParseModel(fields, manifest);
  manifest.layer = fields.Integer("layer", 0, kMaxLayers);
  ParseHookConvention(fields, manifest);
  ParseAttentionMember(fields, manifest);
  ParseContents(fields, manifest);
  ParseFiles(fields, manifest);
  manifest.producer = fields.Text("producer");
  ParseCreated(fields, manifest);
  LORSA_RETURN_IF_ERROR(fields.Finish());
  return manifest;
}

std::string FormatManifest(const Manifest& manifest) {
  ordered_json value = {{"format", kFormat}, {"format_version", kFormatVersion}};
  value.update(DescriptionJson(manifest));
  value["d_model"] = manifest.d_model;
  value["context"] = manifest.context;
  value["element_type"] = std::string(ElementTypeName(manifest.element_type));
  value["sequences"] = manifest.sequences;
  value["unmasked_tokens"] = manifest.unmasked_tokens;
  value["mean_norm"] = {{"mhsa_input", manifest.mean_input_norm},
                        {"mhsa_output", manifest.mean_output_norm}};
  value["shards"] = ordered_json::array();
  for (const ShardRecord& shard : manifest.shards) {
    ordered_json record = FileJson(shard);
    record["sequences"] = shard.sequences;
    value["shards"].push_back(std::move(record));
  }
  value["checksums"] = FileJson(manifest.checksums);
  value["attention_weights"] = nullptr;
  if (manifest.attention_weights.has_value()) {
    value["attention_weights"] = FileJson(*manifest.attention_weights);
  }
  value["producer"] = manifest.producer;
  value["created"] = manifest.created;
  return Dump(value, 2) + "\n";
}

absl::StatusOr<Manifest> ParseDescription(absl::string_view text) {
  LORSA_ASSIGN_OR_RETURN(const json value, ParseJson(text));
  JsonFields fields(value, "");
  Manifest manifest;
  if (fields.Has("model")) ParseModel(fields, manifest);
  if (fields.Has("layer")) manifest.layer = fields.Integer("layer", 0, kMaxLayers);
  if (fields.Has("hook_convention")) ParseHookConvention(fields, manifest);
  if (fields.Has("attention")) ParseAttentionMember(fields, manifest);
  if (fields.Has("producer")) manifest.producer = fields.Text("producer");
  if (fields.Has("created")) ParseCreated(fields, manifest);
  LORSA_RETURN_IF_ERROR(fields.Finish());
  return manifest;
}

std::string FormatDescription(const Manifest& manifest) {
  ordered_json value = DescriptionJson(manifest);
  value["producer"] = manifest.producer;
  if (!manifest.created.empty()) value["created"] = manifest.created;
  return Dump(value, -1);
}

}  // namespace lorsa::store

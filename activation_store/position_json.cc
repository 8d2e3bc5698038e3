#include "activation_store/position_json.h"

#include <algorithm>

namespace lorsa::store {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

NtkByParts TakeNtk(JsonFields& rope, const json& value) {
  JsonFields fields(value, rope.Path("ntk_by_parts"));
  NtkByParts ntk = {.factor = fields.Positive("factor"),
                    .low_freq_factor = fields.Positive("low_freq_factor"),
                    .high_freq_factor = fields.Positive("high_freq_factor"),
                    .original_context = fields.Integer("original_context", 1, kMaxContext)};
  if (ntk.high_freq_factor <= ntk.low_freq_factor) {
    fields.Fail(fields.Path("high_freq_factor"), "is not above low_freq_factor");
  }
  rope.Take(fields.Finish());
  return ntk;
}

}  // namespace

std::optional<Rope> TakeRope(JsonFields& fields, int64_t d_head) {
  const json* value = fields.Nullable("rope");
  if (value == nullptr) return std::nullopt;
  JsonFields members(*value, fields.Path("rope"));
  Rope rope = {.base = members.Positive("base"),
               .rotary_dim = members.Integer("rotary_dim", 2, std::max<int64_t>(2, d_head)),
               .adjacent_pairs = members.Boolean("adjacent_pairs")};
  if (rope.base <= 1) members.Fail(members.Path("base"), "is not above 1");
  if (rope.rotary_dim % 2 != 0) members.Fail(members.Path("rotary_dim"), "is not even");
  if (const json* ntk = members.Nullable("ntk_by_parts")) {
    rope.ntk_by_parts = TakeNtk(members, *ntk);
  }
  fields.Take(members.Finish());
  return rope;
}

std::optional<QkNorm> TakeQkNorm(JsonFields& fields) {
  const json* value = fields.Nullable("qk_norm");
  if (value == nullptr) return std::nullopt;
  JsonFields members(*value, fields.Path("qk_norm"));
  QkNorm norm = {.epsilon = members.Positive("epsilon")};
  fields.Take(members.Finish());
  return norm;
}

ordered_json RopeJson(const std::optional<Rope>& rope) {
  if (!rope.has_value()) return nullptr;
  ordered_json value = {{"base", rope->base},
                        {"rotary_dim", rope->rotary_dim},
                        {"adjacent_pairs", rope->adjacent_pairs},
                        {"ntk_by_parts", nullptr}};
  if (const auto& ntk = rope->ntk_by_parts; ntk.has_value()) {
    value["ntk_by_parts"] = {{"factor", ntk->factor},
                             {"low_freq_factor", ntk->low_freq_factor},
                             {"high_freq_factor", ntk->high_freq_factor},
                             {"original_context", ntk->original_context}};
  }
  return value;
}

ordered_json QkNormJson(const std::optional<QkNorm>& norm) {
  if (!norm.has_value()) return nullptr;
  return {{"epsilon", norm->epsilon}};
}

}  // namespace lorsa::store

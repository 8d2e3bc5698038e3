// JSON of what acts on q and k by position, shared by the manifests of sets and the configurations
// of checkpoints: {"base", "rotary_dim", "adjacent_pairs", "ntk_by_parts"} and {"epsilon"}.
#ifndef LORSA_ACTIVATION_STORE_POSITION_JSON_H_
#define LORSA_ACTIVATION_STORE_POSITION_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "activation_store/manifest.h"
#include "base/json_fields.h"

namespace lorsa::store {

// The members `rope` and `qk_norm` of `fields`; null = none. Errors go to `fields`.
std::optional<Rope> TakeRope(JsonFields& fields, int64_t d_head);
std::optional<QkNorm> TakeQkNorm(JsonFields& fields);

nlohmann::ordered_json RopeJson(const std::optional<Rope>& rope);
nlohmann::ordered_json QkNormJson(const std::optional<QkNorm>& norm);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_POSITION_JSON_H_

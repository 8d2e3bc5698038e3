#include "trainer/config/lorsa_config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/config/field_check.h"

namespace lorsa::trainer {
namespace {

constexpr int64_t kMaxDModel = 1 << 16;  // that of the activation format
constexpr int64_t kMaxOvHeads = 1 << 20;
constexpr int64_t kMaxQkHeads = 1 << 16;
constexpr int64_t kMaxDQk = 1024;
// Elements of the largest tensor: 64 GiB in fp32. Far below overflow, far above any use.
constexpr int64_t kMaxElements = int64_t{1} << 34;

absl::Status CheckRope(const store::Rope& rope, int64_t d_qk) {
  LORSA_RETURN_IF_ERROR(CheckAbove("rope.base", rope.base, 1, 1e12));
  LORSA_RETURN_IF_ERROR(CheckWhole("rope.rotary_dim", rope.rotary_dim, 2, d_qk));
  if (rope.rotary_dim % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rope.rotary_dim is ", rope.rotary_dim, "; give an even number."));
  }
  if (!rope.ntk_by_parts) return absl::OkStatus();
  const store::NtkByParts& ntk = *rope.ntk_by_parts;
  LORSA_RETURN_IF_ERROR(CheckAbove("rope.ntk_by_parts.factor", ntk.factor, 0, 1e6));
  LORSA_RETURN_IF_ERROR(
      CheckAbove("rope.ntk_by_parts.low_freq_factor", ntk.low_freq_factor, 0, 1e6));
  LORSA_RETURN_IF_ERROR(CheckAbove("rope.ntk_by_parts.high_freq_factor", ntk.high_freq_factor,
                                   ntk.low_freq_factor, 1e6));
  return CheckWhole("rope.ntk_by_parts.original_context", ntk.original_context, 1, 1 << 30);
}

absl::Status CheckSize(const LorsaConfig& config) {
  const int64_t elements = std::max(config.n_ov_heads * config.d_model,
                                    config.n_qk_heads * config.d_model * config.d_qk);
  if (elements <= kMaxElements) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("n_ov_heads, n_qk_heads, d_qk and d_model make a weight of ", elements,
                   " elements; at most ", kMaxElements, " are possible."));
}

}  // namespace

absl::Status ValidateLorsaConfig(const LorsaConfig& config) {
  LORSA_RETURN_IF_ERROR(CheckWhole("d_model", config.d_model, 1, kMaxDModel));
  LORSA_RETURN_IF_ERROR(CheckWhole("n_ov_heads", config.n_ov_heads, 1, kMaxOvHeads));
  LORSA_RETURN_IF_ERROR(CheckWhole("n_qk_heads", config.n_qk_heads, 1, kMaxQkHeads));
  LORSA_RETURN_IF_ERROR(CheckWhole("d_qk", config.d_qk, 1, kMaxDQk));
  LORSA_RETURN_IF_ERROR(CheckWhole("top_k", config.top_k, 1, config.n_ov_heads));
  if (config.n_ov_heads % config.n_qk_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("n_ov_heads is ", config.n_ov_heads,
                                                   "; give a multiple of n_qk_heads, ",
                                                   config.n_qk_heads, "."));
  }
  LORSA_RETURN_IF_ERROR(CheckSize(config));
  LORSA_RETURN_IF_ERROR(CheckAbove("attn_scale", config.attn_scale, 0, 1e6));
  if (config.rope) LORSA_RETURN_IF_ERROR(CheckRope(*config.rope, config.d_qk));
  if (config.qk_norm) {
    LORSA_RETURN_IF_ERROR(CheckAbove("qk_norm.epsilon", config.qk_norm->epsilon, 0, 1));
  }
  return absl::OkStatus();
}

int64_t ParameterCount(const LorsaConfig& config) {
  const int64_t qk =
      2 * config.n_qk_heads * config.d_qk * (config.d_model + 1 + (config.qk_norm ? 1 : 0));
  const int64_t ov = config.n_ov_heads * (2 * config.d_model + 1);
  return qk + ov + (config.decoder_bias ? config.d_model : 0);
}

}  // namespace lorsa::trainer

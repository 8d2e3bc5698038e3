// What a Lorsa is, apart from its weights (arXiv 2504.20938). Knows nothing of torch.
#ifndef LORSA_TRAINER_CONFIG_LORSA_CONFIG_H_
#define LORSA_TRAINER_CONFIG_LORSA_CONFIG_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "activation_store/manifest.h"

namespace lorsa::trainer {

// Which OV heads may stay active at a token. z_i is the head's pre-activation, w_i = ‖W_O[i]‖.
enum class Selection {
  kRelu,    // the K largest scores that are positive; score = z_i·w_i, or z_i (see below)
  kSigned,  // the K largest scores |z_i|·w_i, signs kept
};

// Letters of shapes used throughout the trainer: B sequences, S positions, d = d_model,
// H = n_ov_heads, G = n_qk_heads, D = d_qk, K = top_k. OV head i uses QK head i / (H/G).
struct LorsaConfig {
  int64_t d_model = 0;
  int64_t n_ov_heads = 0;  // a multiple of n_qk_heads
  int64_t n_qk_heads = 0;
  int64_t d_qk = 0;
  int64_t top_k = 0;  // 1 to n_ov_heads
  Selection selection = Selection::kRelu;
  bool select_by_decoder_norm = true;  // with kRelu: score z_i·w_i; false: score z_i
  bool decoder_bias = true;            // has b_D
  double attn_scale = 0;               // divides q·k
  std::optional<store::Rope> rope;
  std::optional<store::QkNorm> qk_norm;  // RMS norm of each q and k head, before rope
};

// INVALID_ARGUMENT naming the field that is out of its bounds. The bounds keep every size that
// follows from the configuration far from overflow; they are those of the training specification.
absl::Status ValidateLorsaConfig(const LorsaConfig& config);

// Numbers in all weights of such a Lorsa (lorsa_parameters.h).
int64_t ParameterCount(const LorsaConfig& config);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_CONFIG_LORSA_CONFIG_H_

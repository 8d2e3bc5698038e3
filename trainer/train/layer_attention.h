// The language model's own attention layer. It is a Lorsa too: one with n_heads QK heads, a
// d_head-wide OV head for each of their value dimensions, and all of them active. So the one
// implementation of the mathematics computes it.
#ifndef LORSA_TRAINER_TRAIN_LAYER_ATTENTION_H_
#define LORSA_TRAINER_TRAIN_LAYER_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "activation_store/manifest.h"
#include "base/file_system.h"
#include "trainer/config/lorsa_config.h"
#include "trainer/lorsa/lorsa_parameters.h"

namespace lorsa::trainer {

// Grouped keys and values are expanded: KV head h // (n_heads / n_kv_heads) for query head h.
struct LayerAttention {
  LorsaConfig config;          // G = n_heads, D = d_head, H = K = n_heads·d_head
  LorsaParameters parameters;  // of scaled inputs; b_d is the output bias, or zero

  int64_t n_heads() const { return config.n_qk_heads; }
  int64_t d_head() const { return config.d_qk; }
  at::Tensor ValueWeight(int64_t head) const;   // [d_head, d]: rows read
  at::Tensor ValueBias(int64_t head) const;     // [d_head]
  at::Tensor OutputWeight(int64_t head) const;  // [d_head, d]: rows are written

  // Attention-weighted values of all heads, biases included: [B, S, n_heads, d_head] for scaled
  // inputs `x` [B, S, d].
  at::Tensor HeadValues(const at::Tensor& x) const;
};

// Reads a set's attention.safetensors and makes it a layer that takes inputs multiplied by
// `input_scale` and gives what it gave without that. DATA_LOSS naming the tensor if it is not that
// of the geometry or not finite.
absl::StatusOr<LayerAttention> LoadLayerAttention(FileSystem& fs, const std::string& path,
                                                  const store::AttentionGeometry& geometry,
                                                  int64_t d_model, double input_scale,
                                                  at::Device device);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_LAYER_ATTENTION_H_

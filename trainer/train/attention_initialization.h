// Weights made from the language model's own attention layer. Pure functions of their arguments
// and of the generator.
#ifndef LORSA_TRAINER_TRAIN_ATTENTION_INITIALIZATION_H_
#define LORSA_TRAINER_TRAIN_ATTENTION_INITIALIZATION_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "trainer/config/lorsa_config.h"
#include "trainer/lorsa/lorsa_parameters.h"
#include "trainer/train/layer_attention.h"

namespace lorsa::trainer {

// OK if a Lorsa of this shape can start from the layer: d_qk is its d_head and n_qk_heads a
// multiple of its heads. INVALID_ARGUMENT naming the field if not.
absl::Status CheckFitsLayer(const LorsaConfig& config, const LayerAttention& layer);

// W_Q, W_K, b_Q, b_K and the gains of the QK norm: QK heads h·e to h·e+e−1 are copies of the
// layer's head h, e = G / n_heads.
void CopyQk(const LorsaConfig& config, const LayerAttention& layer, LorsaParameters& out);

// W_V, b_V, W_O of H / n_heads OV heads for each head h of the layer, in its value space: a random
// unit row w_V in the row space of W_V^h, b_V = 0, and the unit row along w_V·W_V^h·W_O^h.
void InitializeOvFromAttention(const LorsaConfig& config, const LayerAttention& layer,
                               at::Generator& generator, LorsaParameters& out);

// The same from sampled attention outputs. `values` [N, n_heads, d_head] are LayerAttention's head
// values at N ≥ 2 targets, with mean μ and covariance Σ per head. Each OV head takes one target t,
// drawn with probability ∝ ‖(z_t−μ)·W_O^h‖: it reads along W_V^h·Σ⁻¹·(z_t−μ), the direction that
// tells z_t best from the others, and writes along (z_t−μ)·W_O^h. Rows of W_V have length 1;
// b_V = −E[z_i], which centres the pre-activation since the rows of the pattern sum to 1;
// ‖W_O[i]‖ = 1 / sqrt(std z_i). docs/adr/0006 has what was measured.
void InitializeOvFromSamples(const LorsaConfig& config, const LayerAttention& layer,
                             const at::Tensor& values, at::Generator& generator,
                             LorsaParameters& out);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_ATTENTION_INITIALIZATION_H_

// New directions for dead heads, drawn from what the Lorsa does not explain yet.
//
// A head keeps its place and so the pattern A of its QK head g. What g sees of the inputs is
// u_t = P Σ_j A_tj x_j, P an orthonormal basis of the directions that its live heads read. Ridge
// regression of the errors e = y−ŷ on u gives ê_t = (u_t−μ) M: the part of the error that g could
// still explain. As at the initialisation (attention_initialization.h), targets t are drawn with
// probability ∝ ‖ê_t‖, and such a head reads along Pᵀ Σ⁻¹ (u_t−μ), where Σ is the covariance of u,
// writes along ê_t and has b_V = −E[z]. It reads with the mean norm of the live heads; the norm of
// its writing makes its score exceed the least kept one at resample_firing_factor · K/H of the
// targets, so that it is active, but rarely.
#ifndef LORSA_TRAINER_TRAIN_HEAD_RESAMPLING_H_
#define LORSA_TRAINER_TRAIN_HEAD_RESAMPLING_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "trainer/lorsa/lorsa_kernel.h"
#include "trainer/train/dead_heads.h"
#include "trainer/train/training_sample.h"

namespace lorsa::trainer {

// Positions of the sample that directions are drawn from.
inline constexpr int64_t kResamplePositions = 4096;

// Rows for the heads where `dead` [H] bool is true, at least one. Draws from `generator`, QK head
// by QK head. Throws c10::Error.
HeadRows ResampleHeads(const TrainConfig& config, LorsaKernel& kernel,
                       const LorsaParameters& parameters, const TrainingSample& sample,
                       const at::Tensor& dead, at::Generator& generator);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_HEAD_RESAMPLING_H_

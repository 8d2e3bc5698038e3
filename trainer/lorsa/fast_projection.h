// The dense products of the fast path: x to q, k and v, and their gradients to those of the
// weights. T is the working type, float or kernels::Bf16.
#ifndef LORSA_TRAINER_LORSA_FAST_PROJECTION_H_
#define LORSA_TRAINER_LORSA_FAST_PROJECTION_H_

#include "trainer/lorsa/fast_workspace.h"
#include "trainer/lorsa/lorsa_parameters.h"

namespace lorsa::trainer {

// Working copies of the weights.
template <typename T>
void PackWeights(const StepSizes& sizes, const LorsaParameters& parameters, Workspace<T>& work);

// `x` [B, S, d]. The forms that only gradients need are left out without `for_gradients`.
template <typename T>
void PackInput(const StepSizes& sizes, const at::Tensor& x, bool for_gradients, Workspace<T>& work);

// q and k after norm and rope, and v.
template <typename T>
void ProjectQueriesAndKeys(const StepSizes& sizes, const LorsaParameters& parameters,
                           Workspace<T>& work);
template <typename T>
void ProjectValues(const StepSizes& sizes, const LorsaParameters& parameters, Workspace<T>& work);

// W_Q, W_K, W_V and the parameters of one number per head or dimension before them.
template <typename T>
void ProjectionGradients(const StepSizes& sizes, Workspace<T>& work, LorsaParameters& gradients);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_FAST_PROJECTION_H_

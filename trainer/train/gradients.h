// The gradient as one vector: its norm, its clipping, and what is wrong with it.
#ifndef LORSA_TRAINER_TRAIN_GRADIENTS_H_
#define LORSA_TRAINER_TRAIN_GRADIENTS_H_

#include <string>

#include "trainer/config/lorsa_config.h"
#include "trainer/lorsa/lorsa_parameters.h"

namespace lorsa::trainer {

// Euclidean norm over all parameters, accumulated in double precision, so that it is finite if and
// only if every element is.
double GlobalNorm(const LorsaConfig& config, const LorsaParameters& gradients);

// What the gradient is to be multiplied by so that its norm is at most max_norm; max_norm 0 = off.
double ClippingFactor(double norm, double max_norm);

// Name of the first tensor that has a NaN or Inf; empty if none has.
std::string FirstNonFinite(const LorsaConfig& config, const LorsaParameters& tensors);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_GRADIENTS_H_

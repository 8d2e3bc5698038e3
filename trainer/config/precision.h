// The working precision of a kernel's products.
#ifndef LORSA_TRAINER_CONFIG_PRECISION_H_
#define LORSA_TRAINER_CONFIG_PRECISION_H_

namespace lorsa::trainer {

// Weights, moments and gradients are fp32 with either.
enum class Precision { kFp32, kBf16 };

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_CONFIG_PRECISION_H_

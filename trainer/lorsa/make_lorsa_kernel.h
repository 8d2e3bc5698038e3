// The choice among the implementations of LorsaKernel.
#ifndef LORSA_TRAINER_LORSA_MAKE_LORSA_KERNEL_H_
#define LORSA_TRAINER_LORSA_MAKE_LORSA_KERNEL_H_

#include <memory>

#include "trainer/lorsa/lorsa_kernel.h"

namespace lorsa::trainer {

// The fastest implementation for this configuration, which is valid (ValidateLorsaConfig).
std::unique_ptr<LorsaKernel> MakeLorsaKernel(const LorsaConfig& config);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_MAKE_LORSA_KERNEL_H_

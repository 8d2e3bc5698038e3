// The choice among the implementations of LorsaKernel.
#ifndef LORSA_TRAINER_LORSA_MAKE_LORSA_KERNEL_H_
#define LORSA_TRAINER_LORSA_MAKE_LORSA_KERNEL_H_

#include <c10/core/Device.h>

#include <memory>

#include "trainer/config/precision.h"
#include "trainer/lorsa/lorsa_kernel.h"

namespace lorsa::trainer {

// The fastest implementation on `device` for this configuration, which is valid
// (ValidateLorsaConfig). Elsewhere than on a CPU products are fp32, whatever `precision`.
std::unique_ptr<LorsaKernel> MakeLorsaKernel(const LorsaConfig& config, Precision precision,
                                             c10::Device device);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_MAKE_LORSA_KERNEL_H_

#include "trainer/lorsa/make_lorsa_kernel.h"

#include "trainer/lorsa/fast_lorsa.h"
#include "trainer/lorsa/reference_lorsa.h"

namespace lorsa::trainer {

std::unique_ptr<LorsaKernel> MakeLorsaKernel(const LorsaConfig& config, Precision precision,
                                             c10::Device device) {
  if (!device.is_cpu()) return std::make_unique<ReferenceLorsa>(config);
  return MakeFastLorsa(config, precision);
}

}  // namespace lorsa::trainer

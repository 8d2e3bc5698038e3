#include "trainer/lorsa/make_lorsa_kernel.h"

#include "trainer/lorsa/reference_lorsa.h"

namespace lorsa::trainer {

std::unique_ptr<LorsaKernel> MakeLorsaKernel(const LorsaConfig& config) {
  return std::make_unique<ReferenceLorsa>(config);
}

}  // namespace lorsa::trainer

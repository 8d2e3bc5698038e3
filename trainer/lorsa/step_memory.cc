#include "trainer/lorsa/step_memory.h"

#include <c10/util/accumulate.h>

#include "trainer/lorsa/fast_workspace.h"
#include "trainer/lorsa/lorsa_parameters.h"

namespace lorsa::trainer {

int64_t StepMemoryBytes(const LorsaConfig& config, Precision precision, const StepShape& shape,
                        int threads) {
  const StepSizes sizes(config, shape.sequences, shape.context);
  const StepDemand demand{.gradients = true, .top_k = config.top_k, .aux_top_k = shape.aux_top_k};
  int64_t bytes = 0;
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    bytes += c10::multiply_integers(spec.shape) * static_cast<int64_t>(sizeof(float));
  }
  return bytes + (precision == Precision::kBf16
                      ? WorkspaceBytes<kernels::Bf16>(config, sizes, demand, threads)
                      : WorkspaceBytes<float>(config, sizes, demand, threads));
}

}  // namespace lorsa::trainer

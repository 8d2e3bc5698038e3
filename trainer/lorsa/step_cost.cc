#include "trainer/lorsa/step_cost.h"

#include "trainer/lorsa/fast_buffers.h"

namespace lorsa::trainer {

int64_t StepMemoryBytes(const LorsaConfig& config, Precision precision, const StepShape& shape,
                        int threads) {
  const StepSizes sizes(config, shape.sequences, shape.context);
  const StepDemand demand{.gradients = true, .top_k = config.top_k, .aux_top_k = shape.aux_top_k};
  const int64_t gradients = ParameterCount(config) * static_cast<int64_t>(sizeof(float));
  return gradients + (precision == Precision::kBf16
                          ? StepBufferBytes<kernels::Bf16>(sizes, demand, threads)
                          : StepBufferBytes<float>(sizes, demand, threads));
}

double StepFlops(const LorsaConfig& config, const StepShape& shape) {
  const StepSizes s(config, shape.sequences, shape.context);
  const double tokens = s.T, half = s.S / 2.0, k = config.top_k;
  const double projections = 4 * tokens * s.d * (2.0 * s.G * s.D + s.H);
  const double attention = 2 * tokens * half * s.G * (4.0 * s.D + s.R);
  const double sparse = 6 * tokens * k * s.d + 4 * tokens * k * half;
  return projections + attention + sparse;
}

}  // namespace lorsa::trainer

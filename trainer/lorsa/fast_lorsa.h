// The Lorsa on a CPU, written for it: dense products only where nothing is known to be zero, the
// rest by kept head. Held to the same golden files as ReferenceLorsa.
#ifndef LORSA_TRAINER_LORSA_FAST_LORSA_H_
#define LORSA_TRAINER_LORSA_FAST_LORSA_H_

#include <functional>
#include <memory>

#include "trainer/config/precision.h"
#include "trainer/kernels/loops.h"
#include "trainer/lorsa/lorsa_kernel.h"

namespace lorsa::trainer {

// Called at the end of each stage of a step, with its name.
using StageObserver = std::function<void(const char* stage)>;

// `config` is valid (ValidateLorsaConfig). With kBf16, x, the weights, q, k, v, the pattern and
// their gradients enter products in bf16 and are summed in fp32; softmax, scores, the error, and
// the gradients that come out are fp32. Keeps the memory of its largest step (step_cost.h). The
// result of a step does not depend on the number of threads. The tensors of StepResult::gradients
// are used again by the next step once nobody else holds them.
std::unique_ptr<LorsaKernel> MakeFastLorsa(LorsaConfig config, Precision precision,
                                           kernels::Level level = kernels::BestLevel(),
                                           StageObserver observer = nullptr);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_FAST_LORSA_H_

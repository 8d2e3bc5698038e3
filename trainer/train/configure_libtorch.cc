#include "trainer/train/configure_libtorch.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

namespace lorsa::trainer {

void ConfigureLibtorch(int threads) {
  at::set_num_threads(threads);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  // Deterministic mode would also fill every new tensor with NaN, a pass over memory each time.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

}  // namespace lorsa::trainer

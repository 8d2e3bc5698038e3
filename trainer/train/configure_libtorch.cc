#include "trainer/train/configure_libtorch.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <atomic>
#include <cstdint>

namespace lorsa::trainer {

void ConfigureLibtorch(int threads) {
  at::set_num_threads(threads);
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  // Deterministic mode would also fill every new tensor with NaN, a pass over memory each time.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

int ThreadsInUse() {
  std::atomic<int> threads = 0;  // each is given one range
  at::parallel_for(0, at::get_num_threads(), /*grain_size=*/1,
                   [&](int64_t, int64_t) { ++threads; });
  return threads;
}

}  // namespace lorsa::trainer

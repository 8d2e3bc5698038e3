#include "trainer/kernels/tasks.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

#include "trainer/kernels/block_gemm.h"

namespace lorsa::kernels {

int TaskThreads() { return at::get_num_threads(); }

void RunTasks(int64_t count, absl::FunctionRef<void(int64_t task, int thread)> body) {
  std::atomic<int64_t> next = 0;
  const int64_t threads = std::min<int64_t>(count, TaskThreads());
  at::parallel_for(0, threads, /*grain_size=*/1, [&](int64_t, int64_t) {
    for (int64_t task = next++; task < count; task = next++) body(task, at::get_thread_num());
    ReleaseMultiplier();
  });
}

}  // namespace lorsa::kernels

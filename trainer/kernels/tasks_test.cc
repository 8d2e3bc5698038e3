#include "trainer/kernels/tasks.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

namespace lorsa::kernels {
namespace {

// Without -fopenmp libtorch's parallel_for runs the whole loop on the calling thread, and says
// nothing: every step took twice its time on two cores.
TEST(TasksTest, TheLoopRunsOnAsManyThreadsAsAskedFor) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::atomic<int> started = 0;
  std::vector<int> threads(2);
  RunTasks(2, [&](int64_t task, int thread) {
    threads[task] = thread;
    ++started;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (started < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  at::set_num_threads(before);
  EXPECT_EQ(std::set<int>(threads.begin(), threads.end()), (std::set<int>{0, 1}));
}

}  // namespace
}  // namespace lorsa::kernels

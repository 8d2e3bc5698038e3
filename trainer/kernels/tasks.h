// A parallel loop over tasks of uneven size, on libtorch's threads.
#ifndef LORSA_TRAINER_KERNELS_TASKS_H_
#define LORSA_TRAINER_KERNELS_TASKS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace lorsa::kernels {

// Threads that RunTasks may use; their numbers are 0 to this − 1.
int TaskThreads();

// Calls body(task, thread) once for each task in [0, count); a free thread takes the next. For
// results that do not depend on the number of threads, what a task computes must not depend on
// which thread runs it or on which tasks ran before. The body may multiply blocks. Rethrows the
// first exception.
void RunTasks(int64_t count, absl::FunctionRef<void(int64_t task, int thread)> body);

}  // namespace lorsa::kernels

#endif  // LORSA_TRAINER_KERNELS_TASKS_H_

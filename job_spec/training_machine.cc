#include "job_spec/training_machine.h"

#include "base/cpu_count.h"

namespace lorsa {
namespace {

bool HasBf16() {
#if defined(__x86_64__)
  // Also true of every CPU with bf16 tiles (AMX).
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace

TrainingMachine ThisMachine() { return {.cores = UsableCpus(), .has_bf16 = HasBf16()}; }

}  // namespace lorsa

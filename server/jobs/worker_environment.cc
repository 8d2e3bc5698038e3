#include "server/jobs/worker_environment.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace lorsa::server {
namespace {

constexpr absl::string_view kNames[] = {
    // Account, language, time, where files and libraries are.
    "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "PATH", "TMPDIR", "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    // The C library and the sanitizers.
    "GLIBC_TUNABLES", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};

constexpr absl::string_view kPrefixes[] = {"LC_", "MALLOC_",
                                           // Threads and mathematics of the CPU.
                                           "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ONEDNN_",
                                           "DNNL_",
                                           // libtorch.
                                           "ATEN_", "TORCH_", "PYTORCH_",
                                           // Accelerators.
                                           "CUDA_", "CUBLAS_", "CUDNN_", "NCCL_", "NVIDIA_"};

}  // namespace

bool IsForWorkers(absl::string_view name) {
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](absl::string_view prefix) { return absl::StartsWith(name, prefix); });
}

std::vector<std::string> WorkerEnvironment(char** environment) {
  std::vector<std::string> inherited;
  for (; *environment != nullptr; ++environment) {
    const absl::string_view variable = *environment;
    if (IsForWorkers(variable.substr(0, variable.find('=')))) inherited.emplace_back(variable);
  }
  return inherited;
}

}  // namespace lorsa::server

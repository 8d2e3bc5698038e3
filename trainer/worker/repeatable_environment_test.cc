#include "trainer/worker/repeatable_environment.h"

#include <gtest/gtest.h>

namespace lorsa::worker {
namespace {

TEST(RepeatableEnvironmentTest, WhatChangesThreadsInstructionsOrSumsIsNamed) {
  for (const char* name :
       {"OMP_THREAD_LIMIT", "OMP_DYNAMIC", "OMP_MAX_ACTIVE_LEVELS", "OMP_NESTED", "MKL_CBWR",
        "MKL_NUM_THREADS", "MKL_DYNAMIC", "MKL_ENABLE_INSTRUCTIONS", "DNNL_MAX_CPU_ISA",
        "ONEDNN_DEFAULT_FPMATH_MODE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"}) {
    EXPECT_TRUE(ChangesBits(name, "1")) << name;
  }
  EXPECT_TRUE(ChangesBits("GLIBC_TUNABLES", "glibc.malloc.check=1:glibc.cpu.hwcaps=-AVX2"));
}

TEST(RepeatableEnvironmentTest, WhatOnlyPlacesThreadsOrIsOfOthersStays) {
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY", "OMP_NUM_THREADS",
                           "OMPI_COMM_WORLD_RANK", "PATH", "HOME", "MKLROOT", "LORSA_TOKEN"}) {
    EXPECT_FALSE(ChangesBits(name, "1")) << name;
  }
  EXPECT_FALSE(ChangesBits("GLIBC_TUNABLES", "glibc.malloc.check=1"));
}

}  // namespace
}  // namespace lorsa::worker

#include "server/jobs/worker_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lorsa::server {
namespace {

TEST(WorkerEnvironment, LeavesOutWhatLeadsToOtherMachines) {
  for (const char* name :
       {"http_proxy", "HTTPS_PROXY", "grpc_proxy", "all_proxy", "no_proxy", "SLURM_JOBID",
        "SLURM_NODELIST", "PBS_NODEFILE", "LSB_HOSTS", "OMPI_MCA_orte_default_hostfile",
        "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "HYDRA_HOST_FILE", "NOTIFY_SOCKET",
        "HDF5_PLUGIN_PATH", "GRPC_VERBOSITY", "SSH_AUTH_SOCK", "PATHOLOGICAL"}) {
    EXPECT_FALSE(IsForWorkers(name)) << name;
  }
}

TEST(WorkerEnvironment, KeepsWhatSaysWhereLibrariesAreAndHowToCompute) {
  char path[] = "PATH=/bin", empty[] = "TMPDIR=", proxy[] = "http_proxy=http://proxy:1",
       threads[] = "OMP_NUM_THREADS=2", equals[] = "MKL_CBWR=a=b";
  char* environment[] = {path, empty, proxy, threads, equals, nullptr};
  EXPECT_THAT(WorkerEnvironment(environment), ::testing::ElementsAre(path, empty, threads, equals));
}

}  // namespace
}  // namespace lorsa::server

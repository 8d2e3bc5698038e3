// The behaviour that is asked of every Communicator, of MPI's: mpirun starts this on several ranks.
#include <gtest/gtest.h>

#include "trainer/parallel/mpi_communicator.h"
#include "trainer/parallel/testing/communicator_check.h"

namespace lorsa::trainer {
namespace {

TEST(MpiCommunicatorTest, DoesWhatEveryCommunicatorDoes) {
  ASSERT_EQ(MpiProcessCount(), 3) << "start this with mpirun -n 3";
  const auto communicator = JoinMpi();
  EXPECT_EQ(communicator->size(), 3);
  CheckCommunicator(*communicator);
}

}  // namespace
}  // namespace lorsa::trainer

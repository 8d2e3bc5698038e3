// What every Communicator does, as expectations of GoogleTest.
#ifndef LORSA_TRAINER_PARALLEL_TESTING_COMMUNICATOR_CHECK_H_
#define LORSA_TRAINER_PARALLEL_TESTING_COMMUNICATOR_CHECK_H_

#include "trainer/parallel/communicator.h"

namespace lorsa::trainer {

// Every rank of at least two calls it.
void CheckCommunicator(Communicator& communicator);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_PARALLEL_TESTING_COMMUNICATOR_CHECK_H_

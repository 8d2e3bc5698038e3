// The wall around MPI: its header is included in one file only, and what links it is lorsa-worker.
#ifndef LORSA_TRAINER_PARALLEL_MPI_COMMUNICATOR_H_
#define LORSA_TRAINER_PARALLEL_MPI_COMMUNICATOR_H_

#include <memory>

#include "trainer/parallel/communicator.h"

namespace lorsa::trainer {

// How many processes mpirun started together with this one, as it says in the environment; 1 if
// no mpirun did.
int MpiProcessCount();

// Joins the other processes that mpirun started; not possible a second time. From here on this
// process is killed when mpirun dies, however it does. The communicator belongs to the thread that
// made it, and its destruction waits for that of the others. Ends the process if MPI fails.
std::unique_ptr<Communicator> JoinMpi();

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_PARALLEL_MPI_COMMUNICATOR_H_

// Ranks as threads of one process, for tests.
#ifndef LORSA_TRAINER_PARALLEL_TESTING_THREAD_RANKS_H_
#define LORSA_TRAINER_PARALLEL_TESTING_THREAD_RANKS_H_

#include <functional>
#include <optional>
#include <string>

#include "trainer/parallel/communicator.h"

namespace lorsa::trainer {

// Runs `body` on `ranks` threads, each with its own rank, and returns when all have ended: with the
// message of the first Abort, if there was one. Abort throws, on every rank that then waits too.
// `alter`, if given, may change what rank 0 broadcasts on the way to another rank.
std::optional<std::string> RunThreadRanks(
    int ranks, const std::function<void(Communicator&)>& body,
    const std::function<void(int to, std::string& bytes)>& alter = nullptr);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_PARALLEL_TESTING_THREAD_RANKS_H_

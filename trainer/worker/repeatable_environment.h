// The variables of the environment by which the libraries under the trainer compute otherwise:
// fewer threads than were asked for, other instructions, other orders of sums. A run repeats to the
// bit only without them.
#ifndef LORSA_TRAINER_WORKER_REPEATABLE_ENVIRONMENT_H_
#define LORSA_TRAINER_WORKER_REPEATABLE_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lorsa::worker {

// Whether the variable may change the bits that a run computes.
bool ChangesBits(absl::string_view name, absl::string_view value);

// If such variables are set, executes this program anew without them: OpenMP and glibc read theirs
// before main. It stays the same process, with its descriptors. Call it before
// any other thread and before MPI; returns OK if
// there are none.
absl::Status ShedVariablesThatChangeBits(char** argv);

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_REPEATABLE_ENVIRONMENT_H_

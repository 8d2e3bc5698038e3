// One attempt of a job under lorsad, from its bootstrap file to its outcome.
#ifndef LORSA_TRAINER_WORKER_ATTEMPT_H_
#define LORSA_TRAINER_WORKER_ATTEMPT_H_

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "base/file_system.h"
#include "trainer/worker/ranks.h"

namespace lorsa::worker {

struct AttemptOptions {
  std::string bootstrap_file;  // "-" = stdin
  // Folder of this machine for the files of an attempt that does not share the server's disk; empty
  // for one that does.
  std::string scratch_folder;
};

// Runs the attempt that the bootstrap file describes, with the ranks that `leader` leads. `stop`,
// set from outside, makes it checkpoint and end as if the server drained. OK if its outcome,
// whichever it was, was recorded by the server or at least left in the outcome file; an error if
// this attempt is stale or could not begin.
absl::Status RunAttempt(FileSystem& fs, const AttemptOptions& options,
                        const std::atomic<bool>& stop, LeadingRank& leader);

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_ATTEMPT_H_

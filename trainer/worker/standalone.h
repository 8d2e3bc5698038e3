// The same run without a server: for debugging, and for machines where none may run.
#ifndef LORSA_TRAINER_WORKER_STANDALONE_H_
#define LORSA_TRAINER_WORKER_STANDALONE_H_

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "trainer/train/training_run.h"
#include "trainer/worker/ranks.h"

namespace lorsa::worker {

struct StandaloneOptions {
  std::string spec;           // a TrainingSpec: a file, "-" for standard input, or itself
  std::string set_folder;     // a sealed activation set
  std::string output_folder;  // checkpoints/, metrics.jsonl; a run there is resumed
  // Of a checkpoint whose weights the run starts with: takes the place of the specification's
  // initial_checkpoint. Empty: none.
  std::string initial_checkpoint;
};

// Trains to the end, or makes a checkpoint and is kDrained when `stop` is set. Works with the ranks
// that `leader` leads: the number that a specification without `ranks` has. INVALID_ARGUMENT lists
// every problem of the specification, a line each.
absl::StatusOr<trainer::RunOutcome> RunStandalone(FileSystem& fs, const StandaloneOptions& options,
                                                  const std::atomic<bool>& stop,
                                                  LeadingRank& leader);

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_STANDALONE_H_

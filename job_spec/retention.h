// Which published checkpoints of a run are kept: the one rule of lorsad and of standalone runs.
#ifndef LORSA_JOB_SPEC_RETENTION_H_
#define LORSA_JOB_SPEC_RETENTION_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace lorsa {

// As in TrainingSpec.
struct RetentionPolicy {
  int64_t keep_checkpoints = 1;   // at least 1 is kept
  int64_t keep_every_tokens = 0;  // 0 = none for this reason
};

struct RetainedCheckpoint {
  int64_t step = 0;
  int64_t tokens = 0;
  std::optional<double> fvu;
  bool scheduled = false;
  bool pinned = false;
};

// Steps of those that need not be kept, oldest first. `checkpoints` is in order of step. Kept are
//   - the newest keep_checkpoints
//   - the newest scheduled one: what a run goes back to after a number that is not finite
//   - the best by FVU, of equal ones the later
//   - the pinned
//   - with keep_every_tokens M, of those with kM ≤ tokens < (k+1)M the first, for each k
// Removing what it names and asking again names nothing more, so the rule may be applied at any
// time.
std::vector<int64_t> CheckpointsToDelete(const std::vector<RetainedCheckpoint>& checkpoints,
                                         const RetentionPolicy& policy);

}  // namespace lorsa

#endif  // LORSA_JOB_SPEC_RETENTION_H_

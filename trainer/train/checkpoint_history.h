// The published checkpoints of a run: which one it begins from, and which one it goes back to.
#ifndef LORSA_TRAINER_TRAIN_CHECKPOINT_HISTORY_H_
#define LORSA_TRAINER_TRAIN_CHECKPOINT_HISTORY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "trainer/config/train_config.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/run_host.h"
#include "trainer/train/training_state.h"

namespace lorsa::trainer {

// Whether a checkpoint of this state is one that an undisturbed run makes, evaluated if it is due,
// rather than an extra one because of a stop request.
bool IsScheduled(const TrainConfig& config, const TrainingCounts& counts);

// RunHost::FetchCheckpoint, again and again while the disk is full.
absl::StatusOr<std::string> FetchCheckpoint(RunHost& host, const std::string& folder);

// One thread. `config` and `host` outlive it. Reading throws c10::Error.
class CheckpointHistory {
 public:
  // `folders` of earlier attempts, newest first. `first_step`: of the checkpoint that came from
  // another run, which counts as scheduled; 0 if none did.
  CheckpointHistory(const TrainConfig& config, RunHost& host, absl::Span<const std::string> folders,
                    int64_t first_step);

  bool empty() const { return folders_.empty(); }

  // One more, newer than all.
  void Add(std::string folder) { folders_.push_back(std::move(folder)); }

  // The state of the newest checkpoint that verifies and is of the history that `rollbacks` tells;
  // NOT_FOUND if there is no such. Warns about those that do not verify. FAILED_PRECONDITION if it
  // is of another configuration; what else RunHost::FetchCheckpoint returned. Its counts have the
  // longer of its own list of rollbacks and `rollbacks`.
  absl::StatusOr<TrainingState> Newest(const Rollbacks& rollbacks, at::Device device);

  // The same for scheduled checkpoints before `step`.
  absl::StatusOr<TrainingState> NewestScheduledBefore(int64_t step, const Rollbacks& rollbacks,
                                                      at::Device device);

 private:
  using Filter = std::function<bool(const TrainingCounts&)>;
  absl::StatusOr<TrainingState> Find(int64_t before_step, const Filter& fits, at::Device device);
  // Warns that a checkpoint is not used, and why.
  void PassOver(const std::string& folder, const absl::Status& why);
  absl::Status CheckConfiguration(const std::string& folder, const Checkpoint& checkpoint);

  const TrainConfig& config_;
  RunHost& host_;
  const int64_t first_step_;
  std::vector<std::string> folders_;  // oldest first
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_CHECKPOINT_HISTORY_H_

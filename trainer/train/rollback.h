// Rollbacks: how a run goes on after a number that is not finite. Knows nothing of torch.
//
// When the loss, a gradient, a weight or the held-out error of a step is NaN or Inf, the run
//   1. waits until the checkpoint in the making is published
//   2. reads the newest scheduled checkpoint before the failed step
//   3. writes the longer list of rollbacks to the host's file, atomically and fsynced, and has the
//      host keep it
//   4. goes on from there with half the learning rate, leaving the failed step's batch out
// A run killed before 3 meets the same number again. One killed after 3 begins from a checkpoint of
// the history that the file tells (IsOfHistory), and so takes the same steps. Only scheduled
// checkpoints are gone back to, because a pause, which makes others, must not change the result.
#ifndef LORSA_TRAINER_TRAIN_ROLLBACK_H_
#define LORSA_TRAINER_TRAIN_ROLLBACK_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "base/json_fields.h"

namespace lorsa::trainer {

struct Rollback {
  int64_t failed_step = 0;  // by the number that metrics give it; its batch is left out from now on
  int64_t to_step = 0;      // of the checkpoint gone back to; less than failed_step

  bool operator==(const Rollback&) const = default;
};

// All of a run, oldest first.
using Rollbacks = std::vector<Rollback>;

// On the scheduled learning rate of `step`: a half for each that it comes after on the way that is
// left of the run. So a run that has to begin from an earlier checkpoint than it went back to takes
// the same steps again.
double LearningRateFactor(const Rollbacks& rollbacks, int64_t step);

// Whether the batch of `step` is left out.
bool LeavesOut(const Rollbacks& rollbacks, int64_t step);

// Whether a checkpoint of `step`, made after `made_after`, lies on the way that a run with all of
// `rollbacks` took, rather than on a branch that one of them gave up.
bool IsOfHistory(int64_t step, const Rollbacks& made_after, const Rollbacks& rollbacks);

// The list as a JSON array, and back; what does not hold is told to `fields`.
nlohmann::json RollbacksToJson(const Rollbacks& rollbacks);
Rollbacks TakeRollbacks(JsonFields& fields, const std::string& key);

// Empty if there is no file. DATA_LOSS naming the file if it is damaged.
absl::StatusOr<Rollbacks> ReadRollbacks(FileSystem& fs, const std::string& path);
// Atomic and durable; RESOURCE_EXHAUSTED while the disk is full.
absl::Status WriteRollbacks(FileSystem& fs, const std::string& path, const Rollbacks& rollbacks);

// ABORTED, told apart from any other by IsNotFinite: what a rollback may cure.
absl::Status NotFiniteError(absl::string_view message);
bool IsNotFinite(const absl::Status& status);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_ROLLBACK_H_

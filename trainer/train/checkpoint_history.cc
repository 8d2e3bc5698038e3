#include "trainer/train/checkpoint_history.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/train/checkpoint_writer.h"

namespace lorsa::trainer {
namespace {

bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status);
}

}  // namespace

bool IsScheduled(const TrainConfig& config, const TrainingCounts& counts) {
  return config.checkpoint_is_due(counts.step) &&
         (!config.evaluation_is_due(counts.step) || counts.evaluated_step == counts.step);
}

absl::StatusOr<std::string> FetchCheckpoint(RunHost& host, const std::string& folder) {
  std::string here;
  LORSA_RETURN_IF_ERROR(WaitForSpace(host, [&]() -> absl::Status {
    LORSA_ASSIGN_OR_RETURN(here, host.FetchCheckpoint(folder));
    return absl::OkStatus();
  }));
  return here;
}

CheckpointHistory::CheckpointHistory(const TrainConfig& config, RunHost& host,
                                     absl::Span<const std::string> folders, int64_t first_step)
    : config_(config),
      host_(host),
      first_step_(first_step),
      folders_(folders.rbegin(), folders.rend()) {}

absl::StatusOr<TrainingState> CheckpointHistory::Newest(const Rollbacks& rollbacks,
                                                        at::Device device) {
  const auto fits = [&](const TrainingCounts& counts) {
    // A list that the file does not know came with the checkpoint from another run's folder.
    return IsOfHistory(counts.step, counts.rollbacks, rollbacks) ||
           IsOfHistory(0, rollbacks, counts.rollbacks);
  };
  LORSA_ASSIGN_OR_RETURN(TrainingState state,
                         Find(std::numeric_limits<int64_t>::max(), fits, device));
  if (state.counts.rollbacks.size() < rollbacks.size()) state.counts.rollbacks = rollbacks;
  return state;
}

absl::StatusOr<TrainingState> CheckpointHistory::NewestScheduledBefore(int64_t step,
                                                                       const Rollbacks& rollbacks,
                                                                       at::Device device) {
  const auto fits = [&](const TrainingCounts& counts) {
    return (IsScheduled(config_, counts) || counts.step == first_step_) &&
           IsOfHistory(counts.step, counts.rollbacks, rollbacks);
  };
  return Find(step, fits, device);
}

absl::StatusOr<TrainingState> CheckpointHistory::Find(int64_t before_step, const Filter& fits,
                                                      at::Device device) {
  for (auto folder = folders_.rbegin(); folder != folders_.rend(); ++folder) {
    if (StepOfCheckpointFolder(*folder) >= before_step) continue;
    const absl::StatusOr<std::string> here = FetchCheckpoint(host_, *folder);
    if (!here.ok() && !IsDamage(here.status())) return here.status();
    absl::StatusOr<Checkpoint> checkpoint = here.ok()
                                                ? ReadCheckpoint(host_.file_system(), *here, device)
                                                : absl::StatusOr<Checkpoint>(here.status());
    if (!checkpoint.ok()) {
      PassOver(*folder, checkpoint.status());
      continue;
    }
    if (!fits(checkpoint->state.counts)) continue;
    LORSA_RETURN_IF_ERROR(CheckConfiguration(*folder, *checkpoint));
    return std::move(checkpoint->state);
  }
  return absl::NotFoundError("There is no checkpoint to go on from.");
}

void CheckpointHistory::PassOver(const std::string& folder, const absl::Status& why) {
  const std::string message = absl::StrCat("A checkpoint is not used: ", why.message());
  if (!IsDamage(why)) return host_.ReportWarning(message);
  host_.ReportDamagedCheckpoint(StepOfCheckpointFolder(folder), message);
}

absl::Status CheckpointHistory::CheckConfiguration(const std::string& folder,
                                                   const Checkpoint& checkpoint) {
  const TrainingCounts& counts = checkpoint.state.counts;
  if (FormatCheckpointConfig(checkpoint.config) !=
          FormatCheckpointConfig(CheckpointConfigOf(config_)) ||
      counts.seed != config_.seed || counts.precision != config_.precision ||
      checkpoint.state.averaged.has_value() != (config_.ema_fraction > 0) ||
      counts.sequences_consumed != counts.step * config_.sequences_per_step) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder, " is a checkpoint of another configuration; start a new run without it."));
  }
  if (!(checkpoint.environment == CurrentEnvironment(config_.ranks))) {
    host_.ReportWarning(absl::StrCat(
        folder, " was written with another build, instruction set or number of threads or ranks; ",
        "the run goes on, but not bit for bit as it would have there."));
  }
  return absl::OkStatus();
}

}  // namespace lorsa::trainer

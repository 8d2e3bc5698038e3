#include "server/kinds/training_kind.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "job_spec/fork.h"
#include "job_spec/initial_weights.h"
#include "job_spec/resolve.h"
#include "server/kinds/initial_checkpoint.h"
#include "server/kinds/training_estimate.h"

namespace lorsa::server {
namespace {

// docs/checkpoint_format.md
constexpr const char* kCheckpointFiles[] = {"config.json", "lorsa.safetensors", "manifest.json",
                                            "state.json", "state.safetensors"};
constexpr int64_t kMaxJsonBytes = 1 << 20;

PlannedSpec Planned(ResolvedSpec resolved) {
  PlannedSpec planned{.violations = std::move(resolved.violations)};
  *planned.resolved.mutable_training() = std::move(resolved.spec);
  return planned;
}

}  // namespace

absl::StatusOr<PlannedSpec> TrainingKind::Plan(const v1::JobSpec& spec,
                                               const v1::ActivationSet* set,
                                               const std::string& field) const {
  const v1::TrainingSpec& training = spec.training();
  if (training.initial_checkpoint().empty()) {
    return Planned(ResolveTrainingSpec(training, *set, machine_));
  }
  LORSA_ASSIGN_OR_RETURN(
      InitialCheckpoint initial,
      FindInitialCheckpoint(catalog_, fs_, layout_, training.initial_checkpoint(),
                            field + ".initial_checkpoint"));
  v1::TrainingSpec of_step = training;
  of_step.set_initial_checkpoint(initial.checkpoint.name());
  PlannedSpec planned = Planned(ResolveFromWeights(of_step, initial.weights, *set, machine_));
  planned.initial_checkpoint = std::move(initial.checkpoint);
  return planned;
}

absl::StatusOr<PlannedSpec> TrainingKind::PlanFork(const v1::JobSpec& ran,
                                                   const v1::TrainingSpec& changes,
                                                   const v1::Checkpoint& checkpoint,
                                                   const v1::ActivationSet& set) const {
  return Planned(ForkTrainingSpec(ran.training(), changes, checkpoint.tokens(), set, machine_));
}

absl::StatusOr<v1::JobEstimate> TrainingKind::EstimateResources(const v1::JobSpec& resolved) const {
  return EstimateTrainingResources(catalog_, resolved.training());
}

absl::StatusOr<std::optional<absl::Duration>> TrainingKind::EstimateTime(
    const v1::JobSpec& resolved) const {
  return EstimateTrainingTime(catalog_, resolved.training());
}

absl::StatusOr<int64_t> TrainingKind::MaxUploadBytes(const v1::JobSpec& resolved,
                                                     const std::string& file) const {
  if (!IsCheckpointFile(file)) {
    return InvalidField("file",
                        "must be lorsa.safetensors, state.safetensors, config.json, state.json "
                        "or manifest.json");
  }
  if (!absl::EndsWith(file, ".safetensors")) return kMaxJsonBytes;
  return EstimateCheckpointBytes(catalog_, resolved.training());
}

bool TrainingKind::IsCheckpointFile(const std::string& file) const {
  return std::find(std::begin(kCheckpointFiles), std::end(kCheckpointFiles), file) !=
         std::end(kCheckpointFiles);
}

}  // namespace lorsa::server

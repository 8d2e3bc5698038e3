#include "server/services/job_planner.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "job_spec/fork.h"
#include "job_spec/initial_weights.h"
#include "server/jobs/attempt_endings.h"
#include "server/services/initial_checkpoint.h"
#include "server/services/job_policy.h"
#include "server/services/known_fields.h"
#include "server/services/set_quarantine.h"

namespace lorsa::server {
namespace {

// The job as it will be stored.
v1::Job Shown(const NewJob& job) {
  v1::Job shown;
  shown.set_name(absl::StrCat("jobs/", job.id));
  *shown.mutable_spec() = job.spec;
  *shown.mutable_resolved_spec() = job.resolved_spec;
  *shown.mutable_policy() = job.policy;
  shown.set_cpu_slots(static_cast<int>(job.resolved_spec.threads() * job.resolved_spec.ranks()));
  shown.set_memory_bytes(job.memory_bytes);
  shown.set_forked_from(job.forked_from);
  return shown;
}

}  // namespace

absl::StatusOr<NewJob> JobPlanner::Plan(const v1::TrainingSpec& spec,
                                        const v1::JobPolicy& policy) const {
  LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(spec, "spec"));
  LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(policy, "policy"));
  LORSA_RETURN_IF_ERROR(
      ForField(ValidateId("activation set id", spec.activation_set()), "spec.activation_set"));
  LORSA_ASSIGN_OR_RETURN(const v1::ActivationSet set,
                         catalog_.GetActivationSet(spec.activation_set()));
  LORSA_RETURN_IF_ERROR(CheckNotQuarantined(set));
  if (!spec.initial_checkpoint().empty()) return PlanFromWeights(spec, set, policy);
  LORSA_ASSIGN_OR_RETURN(NewJob job,
                         Check(ResolveTrainingSpec(spec, set, context_.machine), policy, "spec"));
  job.spec = spec;
  return job;
}

absl::StatusOr<NewJob> JobPlanner::PlanFromWeights(const v1::TrainingSpec& spec,
                                                   const v1::ActivationSet& set,
                                                   const v1::JobPolicy& policy) const {
  LORSA_ASSIGN_OR_RETURN(InitialCheckpoint initial,
                         FindInitialCheckpoint(catalog_, fs_, layout_, spec.initial_checkpoint(),
                                               "spec.initial_checkpoint"));
  v1::TrainingSpec of_step = spec;
  of_step.set_initial_checkpoint(initial.checkpoint.name());
  LORSA_ASSIGN_OR_RETURN(
      NewJob job,
      Check(ResolveFromWeights(of_step, initial.weights, set, context_.machine), policy, "spec"));
  job.spec = spec;
  job.initial_checkpoint = std::move(initial.checkpoint);
  return job;
}

absl::StatusOr<NewJob> JobPlanner::PlanFork(const v1::Job& source, const v1::Checkpoint& checkpoint,
                                            const v1::TrainingSpec& changes,
                                            const v1::JobPolicy& policy) const {
  LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(changes, "changes"));
  LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(policy, "policy"));
  const v1::TrainingSpec& ran = source.resolved_spec();
  if (ran.activation_set().empty()) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          checkpoint.name(),
                          " was imported, so there is no run to go on with; submit a job with ",
                          "it as initial_checkpoint")),
                      "IMPORTED", {{"checkpoint", checkpoint.name()}});
  }
  const absl::StatusOr<v1::ActivationSet> set = catalog_.SetOfJob(source);
  if (absl::IsFailedPrecondition(set.status())) return WithReason(set.status(), kSetChanged);
  LORSA_RETURN_IF_ERROR(set.status());
  LORSA_RETURN_IF_ERROR(CheckNotQuarantined(*set));
  LORSA_ASSIGN_OR_RETURN(
      NewJob job, Check(ForkTrainingSpec(ran, changes, checkpoint.tokens(), *set, context_.machine),
                        policy, "changes"));
  job.spec = source.spec();
  job.spec.MergeFrom(changes);
  job.forked_from = checkpoint.name();
  job.first_checkpoint = checkpoint;
  return job;
}

absl::StatusOr<NewJob> JobPlanner::Check(ResolvedSpec resolved, const v1::JobPolicy& policy,
                                         const std::string& field) const {
  std::vector<FieldViolation> violations =
      PolicyViolations(policy, context_.now(), context_.webhooks);
  for (const FieldViolation& violation : resolved.violations) {
    violations.push_back({absl::StrCat(field, ".", violation.field), violation.description});
  }
  NewJob job{.resolved_spec = std::move(resolved.spec), .policy = policy};
  if (resolved.ok()) {
    LORSA_ASSIGN_OR_RETURN(const v1::JobEstimate estimate,
                           context_.estimate_resources(catalog_, job.resolved_spec));
    job.memory_bytes = estimate.memory_bytes();
    if (const auto too_large = TooLarge(Shown(job), context_.capacity)) {
      violations.push_back({field, too_large->message});
    }
  }
  if (!violations.empty()) return InvalidFields(violations);
  return job;
}

absl::StatusOr<v1::Job> JobPlanner::Preview(const NewJob& job) const {
  v1::Job preview = Shown(job);
  v1::JobEstimate& estimate = *preview.mutable_estimate();
  LORSA_ASSIGN_OR_RETURN(estimate, context_.estimate_resources(catalog_, job.resolved_spec));
  LORSA_ASSIGN_OR_RETURN(const std::optional<double> seconds,
                         context_.estimate_seconds(catalog_, job.resolved_spec));
  if (seconds.has_value()) estimate.set_seconds(*seconds);
  return preview;
}

}  // namespace lorsa::server

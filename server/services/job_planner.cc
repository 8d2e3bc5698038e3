#include "server/services/job_planner.h"

#include <google/protobuf/util/time_util.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "server/jobs/attempt_endings.h"
#include "server/model/spec_facts.h"
#include "server/services/job_policy.h"
#include "server/services/known_fields.h"
#include "server/services/set_quarantine.h"

namespace lorsa::server {
namespace {

// The job as it will be stored.
v1::Job Shown(const NewJob& job) {
  v1::Job shown;
  shown.set_name(absl::StrCat("jobs/", job.id));
  shown.set_kind(KindOf(job.resolved_spec));
  *shown.mutable_spec() = job.spec;
  *shown.mutable_resolved_spec() = job.resolved_spec;
  *shown.mutable_policy() = job.policy;
  shown.set_cpu_slots(FactsOf(job.resolved_spec).cpu_slots);
  shown.set_memory_bytes(job.memory_bytes);
  shown.set_forked_from(job.forked_from);
  return shown;
}

}  // namespace

absl::StatusOr<NewJob> JobPlanner::Plan(const v1::JobSpec& spec,
                                        const v1::JobPolicy& policy) const {
  LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(spec, "spec"));
  switch (spec.spec_case()) {
    case v1::JobSpec::kTraining:
      return PlanNamed(spec, policy, "spec.training");
    case v1::JobSpec::kProgram:
      return PlanNamed(spec, policy, "spec.program");
    case v1::JobSpec::SPEC_NOT_SET:
      break;
  }
  return InvalidField("spec", "is of no kind; set spec.training or spec.program");
}

absl::StatusOr<NewJob> JobPlanner::PlanTraining(const v1::TrainingSpec& spec,
                                                const v1::JobPolicy& policy) const {
  LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(spec, "spec"));
  v1::JobSpec job_spec;
  *job_spec.mutable_training() = spec;
  return PlanNamed(job_spec, policy, "spec");
}

absl::StatusOr<NewJob> JobPlanner::PlanNamed(const v1::JobSpec& spec, const v1::JobPolicy& policy,
                                             const std::string& field) const {
  LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(policy, "policy"));
  LORSA_ASSIGN_OR_RETURN(const JobKind* const kind, KindFor(spec));
  LORSA_ASSIGN_OR_RETURN(const std::optional<v1::ActivationSet> set, SetFor(spec, field));
  LORSA_ASSIGN_OR_RETURN(PlannedSpec planned,
                         kind->Plan(spec, set.has_value() ? &*set : nullptr, field));
  LORSA_ASSIGN_OR_RETURN(NewJob job, Check(*kind, std::move(planned), policy, field));
  job.spec = spec;
  return job;
}

absl::StatusOr<const JobKind*> JobPlanner::KindFor(const v1::JobSpec& spec) const {
  const std::string name = KindOf(spec);
  if (spec.has_program()) {
    LORSA_RETURN_IF_ERROR(ForField(ValidateId("job kind", name), "spec.program.kind"));
  }
  const JobKind* const kind = context_.kinds.Find(name);
  const bool is_program = name != kTrainingKind;
  if (kind != nullptr && is_program == spec.has_program()) return kind;
  return InvalidField("spec.program.kind", is_program ? context_.kinds.Missing(name)
                                                      : "is 'training'; set spec.training instead");
}

absl::StatusOr<std::optional<v1::ActivationSet>> JobPlanner::SetFor(
    const v1::JobSpec& spec, const std::string& field) const {
  const std::string id = FactsOf(spec).activation_set;
  if (id.empty() && spec.has_program()) return std::nullopt;
  LORSA_RETURN_IF_ERROR(
      ForField(ValidateId("activation set id", id), absl::StrCat(field, ".activation_set")));
  LORSA_ASSIGN_OR_RETURN(v1::ActivationSet set, catalog_.GetActivationSet(id));
  LORSA_RETURN_IF_ERROR(CheckNotQuarantined(set));
  return set;
}

absl::StatusOr<NewJob> JobPlanner::PlanFork(const v1::Job& source, const v1::Checkpoint& checkpoint,
                                            const v1::TrainingSpec& changes,
                                            const v1::JobPolicy& policy) const {
  LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(changes, "changes"));
  LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(policy, "policy"));
  if (FactsOf(source.resolved_spec()).never_runs) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          checkpoint.name(),
                          " was imported, so there is no run to go on with; submit a job with ",
                          "it as initial_checkpoint")),
                      "IMPORTED", {{"checkpoint", checkpoint.name()}});
  }
  if (!source.resolved_spec().has_training()) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat(checkpoint.name(), " is of a job of kind ", source.kind(),
                                       ", and only training jobs can be forked; submit a new job")),
                      "NOT_FORKABLE", {{"checkpoint", checkpoint.name()}});
  }
  LORSA_ASSIGN_OR_RETURN(const JobKind* const kind, KindFor(source.resolved_spec()));
  const absl::StatusOr<v1::ActivationSet> set = catalog_.SetOfJob(source);
  if (absl::IsFailedPrecondition(set.status())) return WithReason(set.status(), kSetChanged);
  LORSA_RETURN_IF_ERROR(set.status());
  LORSA_RETURN_IF_ERROR(CheckNotQuarantined(*set));
  LORSA_ASSIGN_OR_RETURN(PlannedSpec planned,
                         kind->PlanFork(source.resolved_spec(), changes, checkpoint, *set));
  LORSA_ASSIGN_OR_RETURN(NewJob job, Check(*kind, std::move(planned), policy, "changes"));
  job.spec = source.spec();
  job.spec.mutable_training()->MergeFrom(changes);
  job.forked_from = checkpoint.name();
  job.first_checkpoint = checkpoint;
  return job;
}

absl::StatusOr<NewJob> JobPlanner::Check(const JobKind& kind, PlannedSpec planned,
                                         const v1::JobPolicy& policy,
                                         const std::string& field) const {
  std::vector<FieldViolation> violations =
      PolicyViolations(policy, context_.now(), context_.webhooks);
  for (const FieldViolation& violation : planned.violations) {
    violations.push_back({absl::StrCat(field, ".", violation.field), violation.description});
  }
  NewJob job{.resolved_spec = std::move(planned.resolved), .policy = policy};
  job.initial_checkpoint = std::move(planned.initial_checkpoint);
  if (planned.violations.empty()) {
    LORSA_ASSIGN_OR_RETURN(const v1::JobEstimate estimate,
                           kind.EstimateResources(job.resolved_spec));
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
  LORSA_ASSIGN_OR_RETURN(const JobKind* const kind, KindFor(job.resolved_spec));
  v1::JobEstimate& estimate = *preview.mutable_estimate();
  LORSA_ASSIGN_OR_RETURN(estimate, kind->EstimateResources(job.resolved_spec));
  LORSA_ASSIGN_OR_RETURN(const std::optional<absl::Duration> time,
                         kind->EstimateTime(job.resolved_spec));
  if (time.has_value()) {
    *estimate.mutable_time() =
        google::protobuf::util::TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(*time));
  }
  return preview;
}

}  // namespace lorsa::server

// From what a client asks for to the job that it makes: fills in every default, finds every problem
// at once, and says what the job takes of the machine. What is particular to a kind of job is left
// to it (server/jobs/job_kind.h).
#ifndef LORSA_SERVER_SERVICES_JOB_PLANNER_H_
#define LORSA_SERVER_SERVICES_JOB_PLANNER_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "lorsa/v1/job.pb.h"
#include "lorsa/v1/job_spec.pb.h"
#include "lorsa/v1/training_spec.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_kind.h"
#include "server/jobs/job_queue.h"
#include "server/webhooks/webhook_receivers.h"

namespace lorsa::server {

struct PlanningContext {
  const JobKinds& kinds;
  JobCapacity capacity;  // a job that is larger is refused
  std::function<absl::Time()> now;
  WebhookReceivers webhooks = {};
};

// Thread-safe; blocks on the catalog and the disk. Errors: INVALID_ARGUMENT naming every wrong
// field of the request, NOT_FOUND for the activation set or the initial checkpoint,
// FAILED_PRECONDITION if the one is quarantined or the other damaged or, of a
// fork, if its set has changed (SET_CHANGED).
class JobPlanner {
 public:
  // `catalog` outlives the planner, as do the kinds.
  JobPlanner(const Catalog& catalog, PlanningContext context)
      : catalog_(catalog), context_(std::move(context)) {}

  // A new job, but for its id and request; fields are named "spec.training.…" or "spec.program.…",
  // and "policy.…".
  absl::StatusOr<NewJob> Plan(const v1::JobSpec& spec, const v1::JobPolicy& policy) const;

  // The same for a training job; fields are named "spec.…" and "policy.…".
  absl::StatusOr<NewJob> PlanTraining(const v1::TrainingSpec& spec,
                                      const v1::JobPolicy& policy) const;

  // One that goes on from a checkpoint of `source`; fields are named "changes.…" and "policy.…".
  absl::StatusOr<NewJob> PlanFork(const v1::Job& source, const v1::Checkpoint& checkpoint,
                                  const v1::TrainingSpec& changes,
                                  const v1::JobPolicy& policy) const;

  // The job as its creation would show it, with what it takes and how long.
  absl::StatusOr<v1::Job> Preview(const NewJob& job) const;

 private:
  // `field`: what the request calls the message of the kind.
  absl::StatusOr<NewJob> PlanNamed(const v1::JobSpec& spec, const v1::JobPolicy& policy,
                                   const std::string& field) const;
  absl::StatusOr<const JobKind*> KindFor(const v1::JobSpec& spec) const;
  // Nothing if `spec` names none and need not.
  absl::StatusOr<std::optional<v1::ActivationSet>> SetFor(const v1::JobSpec& spec,
                                                          const std::string& field) const;
  absl::StatusOr<NewJob> Check(const JobKind& kind, PlannedSpec planned,
                               const v1::JobPolicy& policy, const std::string& field) const;

  const Catalog& catalog_;
  const PlanningContext context_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_JOB_PLANNER_H_

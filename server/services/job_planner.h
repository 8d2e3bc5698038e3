// From what a client asks for to the job that it makes: fills in every default, finds every problem
// at once, and says what the job takes of the machine.
#ifndef LORSA_SERVER_SERVICES_JOB_PLANNER_H_
#define LORSA_SERVER_SERVICES_JOB_PLANNER_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "job_spec/resolve.h"
#include "job_spec/training_machine.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "lorsa/v1/job.pb.h"
#include "lorsa/v1/training_spec.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_estimate.h"
#include "server/jobs/job_queue.h"
#include "server/model/data_layout.h"
#include "server/webhooks/webhook_receivers.h"

namespace lorsa::server {

struct PlanningContext {
  TrainingMachine machine;  // on which workers run
  JobCapacity capacity;     // a job that is larger is refused
  std::function<absl::Time()> now;
  WebhookReceivers webhooks = {};
  // As in job_estimate.h.
  std::function<absl::StatusOr<v1::JobEstimate>(const Catalog&, const v1::TrainingSpec& resolved)>
      estimate_resources = EstimateJobResources;
  std::function<absl::StatusOr<std::optional<double>>(const Catalog&,
                                                      const v1::TrainingSpec& resolved)>
      estimate_seconds = EstimateJobSeconds;
};

// Thread-safe; blocks on the catalog and the disk. Errors: INVALID_ARGUMENT naming every wrong
// field of the request, NOT_FOUND for the activation set or the initial checkpoint,
// FAILED_PRECONDITION if the one is quarantined or the other damaged or, of a
// fork, if its set has changed (SET_CHANGED).
class JobPlanner {
 public:
  // `catalog` and `fs` outlive the planner.
  JobPlanner(const Catalog& catalog, FileSystem& fs, DataLayout layout, PlanningContext context)
      : catalog_(catalog), fs_(fs), layout_(std::move(layout)), context_(std::move(context)) {}

  // A new job, but for its id and request; fields are named "spec.…" and "policy.…".
  absl::StatusOr<NewJob> Plan(const v1::TrainingSpec& spec, const v1::JobPolicy& policy) const;

  // One that goes on from a checkpoint of `source`; fields are named "changes.…" and "policy.…".
  absl::StatusOr<NewJob> PlanFork(const v1::Job& source, const v1::Checkpoint& checkpoint,
                                  const v1::TrainingSpec& changes,
                                  const v1::JobPolicy& policy) const;

  // The job as its creation would show it, with what it takes and how long.
  absl::StatusOr<v1::Job> Preview(const NewJob& job) const;

 private:
  // As Plan, for a specification that names an initial checkpoint, on its set.
  absl::StatusOr<NewJob> PlanFromWeights(const v1::TrainingSpec& spec, const v1::ActivationSet& set,
                                         const v1::JobPolicy& policy) const;
  // `field`: the name of the request's field that holds the specification.
  absl::StatusOr<NewJob> Check(ResolvedSpec resolved, const v1::JobPolicy& policy,
                               const std::string& field) const;

  const Catalog& catalog_;
  FileSystem& fs_;
  const DataLayout layout_;
  const PlanningContext context_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_JOB_PLANNER_H_

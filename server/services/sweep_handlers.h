// The methods of JobService about sweeps. The contract of each stands in the proto.
#ifndef LORSA_SERVER_SERVICES_SWEEP_HANDLERS_H_
#define LORSA_SERVER_SERVICES_SWEEP_HANDLERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorsa/v1/job_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/authorization.h"
#include "server/services/job_planner.h"

namespace lorsa::server {

// "lr" from "sweeps/lr"; INVALID_ARGUMENT naming `field` of the request otherwise.
absl::StatusOr<std::string> SweepIdFrom(const std::string& name, absl::string_view field);

// Thread-safe; blocks on the catalog.
class SweepHandlers {
 public:
  // All outlive the handlers.
  SweepHandlers(JobManager& jobs, const Catalog& catalog, const JobPlanner& planner)
      : jobs_(jobs), catalog_(catalog), planner_(planner) {}

  absl::Status Create(const Caller&, const v1::CreateSweepRequest& request, v1::Sweep& response);
  absl::Status Get(const Caller&, const v1::GetSweepRequest& request, v1::Sweep& response);
  absl::Status List(const Caller&, const v1::ListSweepsRequest& request,
                    v1::ListSweepsResponse& response);
  absl::Status Cancel(const Caller&, const v1::CancelSweepRequest& request, v1::Sweep& response);

 private:
  // The jobs, with their ids.
  absl::StatusOr<std::vector<NewJob>> PlanJobs(const v1::CreateSweepRequest& request) const;

  JobManager& jobs_;
  const Catalog& catalog_;
  const JobPlanner& planner_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SWEEP_HANDLERS_H_

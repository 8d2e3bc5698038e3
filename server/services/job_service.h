// lorsa.v1.JobService. The contract of each method stands in the proto.
#ifndef LORSA_SERVER_SERVICES_JOB_SERVICE_H_
#define LORSA_SERVER_SERVICES_JOB_SERVICE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "lorsa/v1/job_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_watch.h"
#include "server/model/data_layout.h"
#include "server/rpc/call_lanes.h"
#include "server/rpc/rpc_service.h"
#include "server/services/job_planner.h"
#include "server/services/sweep_handlers.h"

namespace lorsa::server {

struct JobServiceEnvironment {
  CallEnvironment calls;
  CallLanes lanes;
  JobManager& jobs;
  Catalog& catalog;
  FileSystem& fs;
  JobWatchHub& watchers;
  DataLayout layout;
  PlanningContext planning;
};

class JobService final : public RpcService {
 public:
  // All of the environment outlives the service; the service outlives the gRPC server.
  explicit JobService(JobServiceEnvironment environment);

 private:
  absl::Status Create(const Caller&, const v1::CreateJobRequest& request, v1::Job& response);
  absl::Status Fork(const Caller&, const v1::ForkJobRequest& request, v1::Job& response);
  // Calls `verb`, a method of JobManager, for the job that the request names, and answers with the
  // job after it.
  template <typename Request, auto verb>
  absl::Status Apply(const Caller&, const Request& request, v1::Job& response);
  absl::Status Update(const Caller&, const v1::UpdateJobRequest& request, v1::Job& response);
  absl::Status Delete(const Caller&, const v1::DeleteJobRequest& request, google::protobuf::Empty&);
  absl::Status List(const Caller&, const v1::ListJobsRequest& request,
                    v1::ListJobsResponse& response);
  OpenedSource<v1::WatchJobResponse> OpenWatch(const Caller&, const v1::WatchJobRequest& request,
                                               Waker waker);
  OpenedSource<v1::ReadLogsResponse> OpenLogs(const Caller&, const v1::ReadLogsRequest& request,
                                              Waker waker);

  const JobServiceEnvironment env_;
  const JobPlanner planner_;
  SweepHandlers sweeps_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_JOB_SERVICE_H_

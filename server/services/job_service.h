// lorsa.v1.JobService. The contract of each method stands in the proto.
#ifndef LORSA_SERVER_SERVICES_JOB_SERVICE_H_
#define LORSA_SERVER_SERVICES_JOB_SERVICE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "lorsa/v1/job_service.grpc.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/data_layout.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_watch.h"
#include "server/rpc/call_lanes.h"
#include "server/rpc/server_stream.h"
#include "server/services/job_planner.h"
#include "server/services/sweep_handlers.h"

namespace lorsa::server {

struct JobServiceEnvironment {
  CallLanes lanes;
  JobManager& jobs;
  Catalog& catalog;
  FileSystem& fs;
  JobWatchHub& watchers;
  DataLayout layout;
  PlanningContext planning;
};

class JobService final : public v1::JobService::CallbackService {
 public:
  // All of the environment outlives the service; the service outlives the gRPC server.
  explicit JobService(JobServiceEnvironment environment)
      : env_(std::move(environment)),
        planner_(env_.catalog, env_.fs, env_.layout, env_.planning),
        sweeps_(env_.jobs, env_.catalog, planner_) {}

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* context,
                                      const v1::CreateJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* ForkJob(grpc::CallbackServerContext* context,
                                    const v1::ForkJobRequest* request, v1::Job* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request, v1::Job* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* PauseJob(grpc::CallbackServerContext* context,
                                     const v1::PauseJobRequest* request,
                                     v1::Job* response) override;
  grpc::ServerUnaryReactor* ResumeJob(grpc::CallbackServerContext* context,
                                      const v1::ResumeJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::Job* response) override;
  grpc::ServerUnaryReactor* RetryJob(grpc::CallbackServerContext* context,
                                     const v1::RetryJobRequest* request,
                                     v1::Job* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* context,
                                      const v1::DeleteJobRequest* request,
                                      google::protobuf::Empty* response) override;
  grpc::ServerUnaryReactor* CreateSweep(grpc::CallbackServerContext* context,
                                        const v1::CreateSweepRequest* request,
                                        v1::Sweep* response) override;
  grpc::ServerUnaryReactor* GetSweep(grpc::CallbackServerContext* context,
                                     const v1::GetSweepRequest* request,
                                     v1::Sweep* response) override;
  grpc::ServerUnaryReactor* ListSweeps(grpc::CallbackServerContext* context,
                                       const v1::ListSweepsRequest* request,
                                       v1::ListSweepsResponse* response) override;
  grpc::ServerUnaryReactor* CancelSweep(grpc::CallbackServerContext* context,
                                        const v1::CancelSweepRequest* request,
                                        v1::Sweep* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(
      grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) override;
  grpc::ServerWriteReactor<v1::ReadLogsResponse>* ReadLogs(
      grpc::CallbackServerContext* context, const v1::ReadLogsRequest* request) override;

 private:
  absl::Status Create(const v1::CreateJobRequest& request, v1::Job& response);
  absl::Status Fork(const v1::ForkJobRequest& request, v1::Job& response);
  absl::Status Delete(const v1::DeleteJobRequest& request);
  absl::Status List(const v1::ListJobsRequest& request, v1::ListJobsResponse& response);
  absl::StatusOr<std::unique_ptr<StreamSource<v1::WatchJobResponse>>> OpenWatch(
      const v1::WatchJobRequest& request, Waker waker);
  absl::StatusOr<std::unique_ptr<StreamSource<v1::ReadLogsResponse>>> OpenLogs(
      const v1::ReadLogsRequest& request, Waker waker);

  const JobServiceEnvironment env_;
  const JobPlanner planner_;
  const SweepHandlers sweeps_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_JOB_SERVICE_H_

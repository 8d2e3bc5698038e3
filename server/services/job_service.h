// lorsa.v1.JobService. The contract of each method stands in the proto.
#ifndef LORSA_SERVER_SERVICES_JOB_SERVICE_H_
#define LORSA_SERVER_SERVICES_JOB_SERVICE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "job_spec/training_machine.h"
#include "lorsa/v1/job_service.grpc.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/data_layout.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_watch.h"
#include "server/rpc/call_runtime.h"
#include "server/rpc/server_stream.h"

namespace lorsa::server {

struct JobServiceEnvironment {
  CallRuntime runtime;
  JobManager& jobs;
  Catalog& catalog;
  FileSystem& fs;
  JobWatchHub& watchers;
  DataLayout layout;
  TrainingMachine machine;  // on which workers run
};

class JobService final : public v1::JobService::CallbackService {
 public:
  // All of the environment outlives the service; the service outlives the gRPC server.
  explicit JobService(JobServiceEnvironment environment) : env_(std::move(environment)) {}

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* context,
                                      const v1::CreateJobRequest* request,
                                      v1::Job* response) override;
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
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(
      grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) override;
  grpc::ServerWriteReactor<v1::ReadLogsResponse>* ReadLogs(
      grpc::CallbackServerContext* context, const v1::ReadLogsRequest* request) override;

 private:
  absl::Status Create(const v1::CreateJobRequest& request, v1::Job& response);
  // The specification with every field set, or all that is wrong with it.
  absl::StatusOr<v1::TrainingSpec> Resolve(const v1::TrainingSpec& spec);
  absl::Status List(const v1::ListJobsRequest& request, v1::ListJobsResponse& response);
  absl::StatusOr<std::unique_ptr<StreamSource<v1::WatchJobResponse>>> OpenWatch(
      const v1::WatchJobRequest& request, Waker waker);
  absl::StatusOr<std::unique_ptr<StreamSource<v1::ReadLogsResponse>>> OpenLogs(
      const v1::ReadLogsRequest& request, Waker waker);

  const JobServiceEnvironment env_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_JOB_SERVICE_H_

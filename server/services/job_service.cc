#include "server/services/job_service.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/status_macros.h"
#include "server/rpc/errors.h"
#include "server/rpc/unary_call.h"
#include "server/services/checkpoint_name.h"
#include "server/services/job_name.h"
#include "server/services/job_policy.h"
#include "server/services/job_sources.h"
#include "server/services/paging.h"
#include "server/services/request_identity.h"

namespace lorsa::server {
namespace {

// Calls `verb(id)` for a request that names a job, and answers with the job after it.
template <typename Request, typename Verb>
absl::Status ApplyVerb(const Request& request, v1::Job& response, Verb verb) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.name(), "name"));
  LORSA_ASSIGN_OR_RETURN(response, verb(id));
  return absl::OkStatus();
}

// What tells apart the requests that make a job.
template <typename Request>
absl::Status CheckIdentity(const Request& request) {
  LORSA_RETURN_IF_ERROR(ForField(ValidateId("job id", request.job_id()), "job_id"));
  return CheckRequestId(request.request_id());
}

absl::StatusOr<LogPlace> LogPlaceFrom(const v1::ReadLogsRequest& request) {
  if (!request.has_start()) return LogPlace{};
  const v1::LogPosition& start = request.start();
  if (start.attempt() < 1 || start.offset() < 0) {
    return InvalidFields({{"start", "is no position: take the `end` of a response as it is"}});
  }
  return LogPlace{start.attempt(), static_cast<uint64_t>(start.offset())};
}

}  // namespace

grpc::ServerUnaryReactor* JobService::CreateJob(grpc::CallbackServerContext* context,
                                                const v1::CreateJobRequest* request,
                                                v1::Job* response) {
  return ServeUnary(
      env_.lanes.files, "lorsa.v1.JobService.CreateJob", context, request, response,
      [this](const auto& request, auto& response) { return Create(request, response); });
}

grpc::ServerUnaryReactor* JobService::ForkJob(grpc::CallbackServerContext* context,
                                              const v1::ForkJobRequest* request,
                                              v1::Job* response) {
  return ServeUnary(
      env_.lanes.files, "lorsa.v1.JobService.ForkJob", context, request, response,
      [this](const auto& request, auto& response) { return Fork(request, response); });
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const v1::GetJobRequest* request, v1::Job* response) {
  return ServeUnary(env_.lanes.reads, "lorsa.v1.JobService.GetJob", context, request, response,
                    [this](const auto& request, auto& response) {
                      return ApplyVerb(request, response, [this](const std::string& id) {
                        return env_.jobs.GetJob(id);
                      });
                    });
}

grpc::ServerUnaryReactor* JobService::ListJobs(grpc::CallbackServerContext* context,
                                               const v1::ListJobsRequest* request,
                                               v1::ListJobsResponse* response) {
  return ServeUnary(
      env_.lanes.reads, "lorsa.v1.JobService.ListJobs", context, request, response,
      [this](const auto& request, auto& response) { return List(request, response); });
}

grpc::ServerUnaryReactor* JobService::PauseJob(grpc::CallbackServerContext* context,
                                               const v1::PauseJobRequest* request,
                                               v1::Job* response) {
  return ServeUnary(env_.lanes.writes, "lorsa.v1.JobService.PauseJob", context, request, response,
                    [this](const auto& request, auto& response) {
                      return ApplyVerb(request, response, [this](const std::string& id) {
                        return env_.jobs.PauseJob(id);
                      });
                    });
}

grpc::ServerUnaryReactor* JobService::ResumeJob(grpc::CallbackServerContext* context,
                                                const v1::ResumeJobRequest* request,
                                                v1::Job* response) {
  return ServeUnary(env_.lanes.writes, "lorsa.v1.JobService.ResumeJob", context, request, response,
                    [this](const auto& request, auto& response) {
                      return ApplyVerb(request, response, [this](const std::string& id) {
                        return env_.jobs.ResumeJob(id);
                      });
                    });
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request,
                                                v1::Job* response) {
  return ServeUnary(env_.lanes.writes, "lorsa.v1.JobService.CancelJob", context, request, response,
                    [this](const auto& request, auto& response) {
                      return ApplyVerb(request, response, [this](const std::string& id) {
                        return env_.jobs.CancelJob(id);
                      });
                    });
}

grpc::ServerUnaryReactor* JobService::RetryJob(grpc::CallbackServerContext* context,
                                               const v1::RetryJobRequest* request,
                                               v1::Job* response) {
  return ServeUnary(env_.lanes.writes, "lorsa.v1.JobService.RetryJob", context, request, response,
                    [this](const auto& request, auto& response) {
                      return ApplyVerb(request, response, [this](const std::string& id) {
                        return env_.jobs.RetryJob(id);
                      });
                    });
}

grpc::ServerUnaryReactor* JobService::DeleteJob(grpc::CallbackServerContext* context,
                                                const v1::DeleteJobRequest* request,
                                                google::protobuf::Empty* response) {
  return ServeUnary(env_.lanes.writes, "lorsa.v1.JobService.DeleteJob", context, request, response,
                    [this](const auto& request, auto&) { return Delete(request); });
}

grpc::ServerUnaryReactor* JobService::CreateSweep(grpc::CallbackServerContext* context,
                                                  const v1::CreateSweepRequest* request,
                                                  v1::Sweep* response) {
  return ServeUnary(
      env_.lanes.files, "lorsa.v1.JobService.CreateSweep", context, request, response,
      [this](const auto& request, auto& response) { return sweeps_.Create(request, response); });
}

grpc::ServerUnaryReactor* JobService::GetSweep(grpc::CallbackServerContext* context,
                                               const v1::GetSweepRequest* request,
                                               v1::Sweep* response) {
  return ServeUnary(
      env_.lanes.reads, "lorsa.v1.JobService.GetSweep", context, request, response,
      [this](const auto& request, auto& response) { return sweeps_.Get(request, response); });
}

grpc::ServerUnaryReactor* JobService::ListSweeps(grpc::CallbackServerContext* context,
                                                 const v1::ListSweepsRequest* request,
                                                 v1::ListSweepsResponse* response) {
  return ServeUnary(
      env_.lanes.reads, "lorsa.v1.JobService.ListSweeps", context, request, response,
      [this](const auto& request, auto& response) { return sweeps_.List(request, response); });
}

grpc::ServerUnaryReactor* JobService::CancelSweep(grpc::CallbackServerContext* context,
                                                  const v1::CancelSweepRequest* request,
                                                  v1::Sweep* response) {
  return ServeUnary(
      env_.lanes.writes, "lorsa.v1.JobService.CancelSweep", context, request, response,
      [this](const auto& request, auto& response) { return sweeps_.Cancel(request, response); });
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* JobService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  return ServeStream<v1::WatchJobResponse>(env_.lanes.reads, "lorsa.v1.JobService.WatchJob",
                                           context, request,
                                           [this, request](const Caller&, Waker waker) {
                                             return OpenWatch(*request, std::move(waker));
                                           });
}

grpc::ServerWriteReactor<v1::ReadLogsResponse>* JobService::ReadLogs(
    grpc::CallbackServerContext* context, const v1::ReadLogsRequest* request) {
  return ServeStream<v1::ReadLogsResponse>(
      env_.lanes.data, "lorsa.v1.JobService.ReadLogs", context, request,
      [this, request](const Caller&, Waker waker) { return OpenLogs(*request, std::move(waker)); });
}

absl::Status JobService::Create(const v1::CreateJobRequest& request, v1::Job& response) {
  LORSA_RETURN_IF_ERROR(CheckIdentity(request));
  const RequestIdentity identity = IdentityOf(request, request.request_id());
  LORSA_ASSIGN_OR_RETURN(std::optional<v1::Job> repeated,
                         env_.jobs.FindRepeatedJob(request.job_id(), identity));
  if (repeated.has_value()) {
    response = *std::move(repeated);
    return absl::OkStatus();
  }
  LORSA_ASSIGN_OR_RETURN(NewJob job, planner_.Plan(request.spec(), request.policy()));
  job.id = request.job_id();
  job.request = identity;
  if (request.validate_only()) {
    LORSA_ASSIGN_OR_RETURN(response, planner_.Preview(job));
    return absl::OkStatus();
  }
  LORSA_ASSIGN_OR_RETURN(response, env_.jobs.CreateJob(job));
  return absl::OkStatus();
}

absl::Status JobService::Fork(const v1::ForkJobRequest& request, v1::Job& response) {
  LORSA_RETURN_IF_ERROR(CheckIdentity(request));
  LORSA_ASSIGN_OR_RETURN(const CheckpointName name,
                         ParseCheckpointName(request.checkpoint(), "checkpoint"));
  const RequestIdentity identity = IdentityOf(request, request.request_id());
  // Before the checkpoint is looked for: it may be gone by now.
  LORSA_ASSIGN_OR_RETURN(std::optional<v1::Job> repeated,
                         env_.jobs.FindRepeatedJob(request.job_id(), identity));
  if (repeated.has_value()) {
    response = *std::move(repeated);
    return absl::OkStatus();
  }
  LORSA_ASSIGN_OR_RETURN(const JobWithCheckpoints source,
                         env_.catalog.GetJobWithCheckpoints(name.job_id));
  LORSA_ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint,
                         FindCheckpoint(source.checkpoints, name, "checkpoint"));
  LORSA_ASSIGN_OR_RETURN(
      NewJob job, planner_.PlanFork(source.job, checkpoint, request.changes(), request.policy()));
  job.id = request.job_id();
  job.request = identity;
  if (request.validate_only()) {
    LORSA_ASSIGN_OR_RETURN(response, planner_.Preview(job));
    return absl::OkStatus();
  }
  LORSA_ASSIGN_OR_RETURN(response, env_.jobs.CreateJob(job));
  return absl::OkStatus();
}

absl::Status JobService::Delete(const v1::DeleteJobRequest& request) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.name(), "name"));
  return env_.jobs.DeleteJob(id, request.force());
}

absl::Status JobService::List(const v1::ListJobsRequest& request, v1::ListJobsResponse& response) {
  LORSA_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  LORSA_ASSIGN_OR_RETURN(const int64_t before, NumberFromToken(request.page_token()));
  std::string sweep_id;
  if (!request.sweep().empty()) {
    LORSA_ASSIGN_OR_RETURN(sweep_id, SweepIdFrom(request.sweep(), "sweep"));
  }
  const std::vector<FieldViolation> bad_labels = LabelViolations(request.labels(), "labels");
  if (!bad_labels.empty()) return InvalidFields(bad_labels);
  std::map<std::string, std::string> labels;
  for (const auto& [key, value] : request.labels()) labels[key] = value;
  // One more than the page shows whether there is another.
  LORSA_ASSIGN_OR_RETURN(std::vector<StoredJob> jobs,
                         env_.jobs.ListJobs({.state = request.state(),
                                             .labels = std::move(labels),
                                             .sweep_id = std::move(sweep_id),
                                             .before = before,
                                             .limit = page_size + 1}));
  const auto size = [](const StoredJob& job) { return job.record.job.ByteSizeLong(); };
  if (const size_t fit = ItemsInPage(jobs, page_size, size); fit < jobs.size()) {
    jobs.resize(fit);
    response.set_next_page_token(TokenAfter(jobs.back().number));
  }
  for (StoredJob& job : jobs) *response.add_jobs() = std::move(job.record.job);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StreamSource<v1::WatchJobResponse>>> JobService::OpenWatch(
    const v1::WatchJobRequest& request, Waker waker) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.name(), "name"));
  if (request.after_revision() < 0) return InvalidField("after_revision", "is negative");
  return std::make_unique<WatchSource>(env_.jobs, env_.catalog, env_.watchers, id,
                                       request.after_revision(), std::move(waker));
}

absl::StatusOr<std::unique_ptr<StreamSource<v1::ReadLogsResponse>>> JobService::OpenLogs(
    const v1::ReadLogsRequest& request, Waker waker) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.name(), "name"));
  LORSA_ASSIGN_OR_RETURN(const LogPlace start, LogPlaceFrom(request));
  return std::make_unique<LogSource>(env_.catalog, LogReader(env_.fs, env_.layout, id, start),
                                     env_.watchers, id, request.follow(), std::move(waker));
}

}  // namespace lorsa::server

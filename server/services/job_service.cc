#include "server/services/job_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "job_spec/resolve.h"
#include "server/jobs/job_estimate.h"
#include "server/rpc/errors.h"
#include "server/rpc/unary_call.h"
#include "server/services/job_name.h"
#include "server/services/job_sources.h"
#include "server/services/paging.h"

namespace lorsa::server {
namespace {

constexpr size_t kMaxRequestIdBytes = 63;

// Calls `verb(id)` for a request that names a job, and answers with the job after it.
template <typename Request, typename Verb>
absl::Status ApplyVerb(const Request& request, v1::Job& response, Verb verb) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.name(), "name"));
  LORSA_ASSIGN_OR_RETURN(response, verb(id));
  return absl::OkStatus();
}

absl::Status CheckCreateRequest(const v1::CreateJobRequest& request) {
  LORSA_RETURN_IF_ERROR(ForField(ValidateId("job id", request.job_id()), "job_id"));
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return InvalidField("request_id",
                        absl::StrCat("is longer than ", kMaxRequestIdBytes, " characters"));
  }
  const v1::TrainingSpec& spec = request.spec();
  // A field that this server does not know would be silently left out of the run.
  if (!spec.GetReflection()->GetUnknownFields(spec).empty()) {
    return InvalidField("spec",
                        "has fields that this server does not know; use the client of its "
                        "version or upgrade the server");
  }
  return ForField(ValidateId("activation set id", spec.activation_set()), "spec.activation_set");
}

}  // namespace

grpc::ServerUnaryReactor* JobService::CreateJob(grpc::CallbackServerContext* context,
                                                const v1::CreateJobRequest* request,
                                                v1::Job* response) {
  return ServeUnary(
      env_.runtime, "lorsa.v1.JobService.CreateJob", context, request, response,
      [this](const auto& request, auto& response) { return Create(request, response); });
}

grpc::ServerUnaryReactor* JobService::GetJob(grpc::CallbackServerContext* context,
                                             const v1::GetJobRequest* request, v1::Job* response) {
  return ServeUnary(env_.runtime, "lorsa.v1.JobService.GetJob", context, request, response,
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
      env_.runtime, "lorsa.v1.JobService.ListJobs", context, request, response,
      [this](const auto& request, auto& response) { return List(request, response); });
}

grpc::ServerUnaryReactor* JobService::PauseJob(grpc::CallbackServerContext* context,
                                               const v1::PauseJobRequest* request,
                                               v1::Job* response) {
  return ServeUnary(env_.runtime, "lorsa.v1.JobService.PauseJob", context, request, response,
                    [this](const auto& request, auto& response) {
                      return ApplyVerb(request, response, [this](const std::string& id) {
                        return env_.jobs.PauseJob(id);
                      });
                    });
}

grpc::ServerUnaryReactor* JobService::ResumeJob(grpc::CallbackServerContext* context,
                                                const v1::ResumeJobRequest* request,
                                                v1::Job* response) {
  return ServeUnary(env_.runtime, "lorsa.v1.JobService.ResumeJob", context, request, response,
                    [this](const auto& request, auto& response) {
                      return ApplyVerb(request, response, [this](const std::string& id) {
                        return env_.jobs.ResumeJob(id);
                      });
                    });
}

grpc::ServerUnaryReactor* JobService::CancelJob(grpc::CallbackServerContext* context,
                                                const v1::CancelJobRequest* request,
                                                v1::Job* response) {
  return ServeUnary(env_.runtime, "lorsa.v1.JobService.CancelJob", context, request, response,
                    [this](const auto& request, auto& response) {
                      return ApplyVerb(request, response, [this](const std::string& id) {
                        return env_.jobs.CancelJob(id);
                      });
                    });
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* JobService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  return ServeStream<v1::WatchJobResponse>(
      env_.runtime, "lorsa.v1.JobService.WatchJob", context,
      [this, request](Waker waker) { return OpenWatch(*request, std::move(waker)); });
}

grpc::ServerWriteReactor<v1::ReadLogsResponse>* JobService::ReadLogs(
    grpc::CallbackServerContext* context, const v1::ReadLogsRequest* request) {
  return ServeStream<v1::ReadLogsResponse>(
      env_.runtime, "lorsa.v1.JobService.ReadLogs", context,
      [this, request](Waker waker) { return OpenLogs(*request, std::move(waker)); });
}

absl::Status JobService::Create(const v1::CreateJobRequest& request, v1::Job& response) {
  LORSA_RETURN_IF_ERROR(CheckCreateRequest(request));
  LORSA_ASSIGN_OR_RETURN(v1::TrainingSpec resolved, Resolve(request.spec()));
  if (request.validate_only()) {
    LORSA_ASSIGN_OR_RETURN(*response.mutable_estimate(), EstimateJob(env_.catalog, resolved));
    response.set_name(absl::StrCat("jobs/", request.job_id()));
    *response.mutable_spec() = request.spec();
    *response.mutable_resolved_spec() = std::move(resolved);
    return absl::OkStatus();
  }
  LORSA_ASSIGN_OR_RETURN(response, env_.jobs.CreateJob({.id = request.job_id(),
                                                        .spec = request.spec(),
                                                        .resolved_spec = std::move(resolved),
                                                        .request_id = request.request_id()}));
  return absl::OkStatus();
}

absl::StatusOr<v1::TrainingSpec> JobService::Resolve(const v1::TrainingSpec& spec) {
  LORSA_ASSIGN_OR_RETURN(const v1::ActivationSet set,
                         env_.catalog.GetActivationSet(spec.activation_set()));
  ResolvedSpec resolved = ResolveTrainingSpec(spec, set, env_.machine);
  if (resolved.ok()) return std::move(resolved.spec);
  for (FieldViolation& violation : resolved.violations) {
    violation.field = absl::StrCat("spec.", violation.field);
  }
  return InvalidFields(resolved.violations);
}

absl::Status JobService::List(const v1::ListJobsRequest& request, v1::ListJobsResponse& response) {
  LORSA_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  if (!request.page_token().empty()) {
    LORSA_RETURN_IF_ERROR(ForField(ValidateId("page token", request.page_token()), "page_token"));
  }
  // One more than the page shows whether there is another.
  LORSA_ASSIGN_OR_RETURN(
      std::vector<v1::Job> jobs,
      env_.jobs.ListJobs(
          {.state = request.state(), .before_id = request.page_token(), .limit = page_size + 1}));
  if (const size_t fit = ItemsInPage(jobs, page_size); fit < jobs.size()) {
    jobs.resize(fit);
    LORSA_ASSIGN_OR_RETURN(*response.mutable_next_page_token(),
                           JobIdFrom(jobs.back().name(), "name"));
  }
  for (v1::Job& job : jobs) *response.add_jobs() = std::move(job);
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
  return std::make_unique<LogSource>(env_.catalog, LogReader(env_.fs, env_.layout, id),
                                     env_.watchers, id, request.follow(), std::move(waker));
}

}  // namespace lorsa::server

#include "server/services/job_service.h"

#include <google/protobuf/util/field_mask_util.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error_details.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_name.h"
#include "server/jobs/job_name.h"
#include "server/services/job_policy.h"
#include "server/services/job_sources.h"
#include "server/services/known_fields.h"
#include "server/services/paging.h"
#include "server/services/request_identity.h"

namespace lorsa::server {
namespace {

// What tells apart the requests that make a job.
template <typename Request>
absl::Status CheckIdentity(const Request& request) {
  LORSA_RETURN_IF_ERROR(ForField(ValidateId("job id", request.job_id()), "job_id"));
  return CheckRequestId(request.request_id());
}

// Fields of JobPolicy, and a policy in which no other is set.
struct PolicyUpdate {
  v1::JobPolicy policy;
  std::vector<std::string> fields;
};

absl::StatusOr<PolicyUpdate> PolicyUpdateFrom(const v1::UpdateJobRequest& request) {
  LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(request.job().policy(), "job.policy"));
  PolicyUpdate update;
  google::protobuf::FieldMask mask;
  for (const std::string& path : request.update_mask().paths()) {
    absl::string_view field = path;
    if (!absl::ConsumePrefix(&field, "policy.") ||
        v1::JobPolicy::descriptor()->FindFieldByName(std::string(field)) == nullptr) {
      return InvalidField(
          "update_mask",
          absl::StrCat("names '", path, "'; use policy.priority, policy.labels, policy.ttl, ",
                       "policy.deadline, policy.step_timeout or policy.webhook"));
    }
    update.fields.emplace_back(field);
    mask.add_paths(std::string(field));
  }
  if (update.fields.empty()) {
    return InvalidField("update_mask", "is empty; name what to change, such as policy.priority");
  }
  google::protobuf::util::FieldMaskUtil::MergeMessageTo(request.job().policy(), mask, {},
                                                        &update.policy);
  return update;
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

JobService::JobService(JobServiceEnvironment environment)
    : RpcService("lorsa.v1.JobService", environment.calls),
      env_(std::move(environment)),
      planner_(env_.catalog, env_.planning),
      sweeps_(env_.jobs, env_.catalog, planner_) {
  const CallLanes& lanes = env_.lanes;
  Unary({"CreateJob", Access::kAnyone, lanes.files}, *this, &JobService::Create);
  Unary({"ForkJob", Access::kAnyone, lanes.files}, *this, &JobService::Fork);
  Unary({"GetJob", Access::kAnyone, lanes.reads}, *this,
        &JobService::Apply<v1::GetJobRequest, &JobManager::GetJob>);
  Unary({"ListJobs", Access::kAnyone, lanes.reads}, *this, &JobService::List);
  Unary({"PauseJob", Access::kAnyone, lanes.writes}, *this,
        &JobService::Apply<v1::PauseJobRequest, &JobManager::PauseJob>);
  Unary({"ResumeJob", Access::kAnyone, lanes.writes}, *this,
        &JobService::Apply<v1::ResumeJobRequest, &JobManager::ResumeJob>);
  Unary({"CancelJob", Access::kAnyone, lanes.writes}, *this,
        &JobService::Apply<v1::CancelJobRequest, &JobManager::CancelJob>);
  Unary({"RetryJob", Access::kAnyone, lanes.writes}, *this,
        &JobService::Apply<v1::RetryJobRequest, &JobManager::RetryJob>);
  Unary({"UpdateJob", Access::kAnyone, lanes.writes}, *this, &JobService::Update);
  Unary({"DeleteJob", Access::kAnyone, lanes.writes}, *this, &JobService::Delete);
  Unary({"CreateSweep", Access::kAnyone, lanes.files}, sweeps_, &SweepHandlers::Create);
  Unary({"GetSweep", Access::kAnyone, lanes.reads}, sweeps_, &SweepHandlers::Get);
  Unary({"ListSweeps", Access::kAnyone, lanes.reads}, sweeps_, &SweepHandlers::List);
  Unary({"CancelSweep", Access::kAnyone, lanes.writes}, sweeps_, &SweepHandlers::Cancel);
  ServerStreaming({"WatchJob", Access::kAnyone, lanes.reads}, *this, &JobService::OpenWatch);
  ServerStreaming({"ReadLogs", Access::kAnyone, lanes.downloads}, *this, &JobService::OpenLogs);
}

template <typename Request, auto verb>
absl::Status JobService::Apply(const Caller&, const Request& request, v1::Job& response) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.name(), "name"));
  LORSA_ASSIGN_OR_RETURN(response, (env_.jobs.*verb)(id));
  return absl::OkStatus();
}

absl::Status JobService::Create(const Caller&, const v1::CreateJobRequest& request,
                                v1::Job& response) {
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

absl::Status JobService::Fork(const Caller&, const v1::ForkJobRequest& request, v1::Job& response) {
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

absl::Status JobService::Update(const Caller&, const v1::UpdateJobRequest& request,
                                v1::Job& response) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.job().name(), "job.name"));
  LORSA_ASSIGN_OR_RETURN(const PolicyUpdate update, PolicyUpdateFrom(request));
  std::vector<FieldViolation> violations =
      PolicyViolations(update.policy, env_.planning.now(), env_.planning.webhooks);
  for (FieldViolation& violation : violations) violation.field = "job." + violation.field;
  if (!violations.empty()) return InvalidFields(violations);
  LORSA_ASSIGN_OR_RETURN(response, env_.jobs.UpdateJob(id, update.policy, update.fields));
  return absl::OkStatus();
}

absl::Status JobService::Delete(const Caller&, const v1::DeleteJobRequest& request,
                                google::protobuf::Empty&) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.name(), "name"));
  return env_.jobs.DeleteJob(id, request.force());
}

absl::Status JobService::List(const Caller&, const v1::ListJobsRequest& request,
                              v1::ListJobsResponse& response) {
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

OpenedSource<v1::WatchJobResponse> JobService::OpenWatch(const Caller&,
                                                         const v1::WatchJobRequest& request,
                                                         Waker waker) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.name(), "name"));
  if (request.after_revision() < 0) return InvalidField("after_revision", "is negative");
  return std::make_unique<WatchSource>(env_.jobs, env_.catalog, env_.watchers, id,
                                       request.after_revision(), std::move(waker));
}

OpenedSource<v1::ReadLogsResponse> JobService::OpenLogs(const Caller&,
                                                        const v1::ReadLogsRequest& request,
                                                        Waker waker) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.name(), "name"));
  LORSA_ASSIGN_OR_RETURN(const LogPlace start, LogPlaceFrom(request));
  return std::make_unique<LogSource>(env_.catalog, LogReader(env_.fs, env_.layout, id, start),
                                     env_.watchers, id, request.follow(), std::move(waker));
}

}  // namespace lorsa::server

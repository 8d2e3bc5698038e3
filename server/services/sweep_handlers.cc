#include "server/services/sweep_handlers.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error_details.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "job_spec/sweep.h"
#include "server/services/known_fields.h"
#include "server/services/paging.h"
#include "server/services/request_identity.h"

namespace lorsa::server {
namespace {

constexpr size_t kMaxSweepIdBytes = 59;  // leaves "-000" of a job's 63

absl::Status CheckIdentity(const v1::CreateSweepRequest& request) {
  LORSA_RETURN_IF_ERROR(ForField(ValidateId("sweep id", request.sweep_id()), "sweep_id"));
  if (request.sweep_id().size() > kMaxSweepIdBytes) {
    return InvalidField("sweep_id",
                        absl::StrCat("is longer than ", kMaxSweepIdBytes, " characters"));
  }
  return CheckRequestId(request.request_id());
}

// Of what is multiplied or stored here; the planner checks the policy.
absl::Status CheckKnown(const v1::CreateSweepRequest& request) {
  LORSA_RETURN_IF_ERROR(CheckFieldsAreKnown(request.spec(), "spec"));
  for (int i = 0; i < request.parameters_size(); ++i) {
    LORSA_RETURN_IF_ERROR(
        CheckFieldsAreKnown(request.parameters(i), absl::StrCat("parameters[", i, "]")));
  }
  return absl::OkStatus();
}

// `status` with its sentence said of `context`; its details stay.
absl::Status Said(const absl::Status& status, absl::string_view context) {
  absl::Status said(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { said.SetPayload(url, payload); });
  return said;
}

// What the client set, as it is stored.
v1::Sweep SweepOf(const v1::CreateSweepRequest& request) {
  v1::Sweep sweep;
  *sweep.mutable_spec() = request.spec();
  *sweep.mutable_parameters() = request.parameters();
  *sweep.mutable_policy() = request.policy();
  return sweep;
}

}  // namespace

absl::StatusOr<std::string> SweepIdFrom(const std::string& name, absl::string_view field) {
  absl::StatusOr<std::string> id = IdFromName("sweeps", name);
  if (!id.ok()) return ForField(id.status(), field);
  return id;
}

absl::StatusOr<std::vector<NewJob>> SweepHandlers::PlanJobs(
    const v1::CreateSweepRequest& request) const {
  LORSA_RETURN_IF_ERROR(CheckKnown(request));
  const ExpandedSweep expanded = ExpandSweep(request.spec(), request.parameters());
  if (!expanded.violations.empty()) return InvalidFields(expanded.violations);
  std::vector<NewJob> jobs;
  for (const SweepCombination& combination : expanded.combinations) {
    absl::StatusOr<NewJob> job = planner_.PlanTraining(combination.spec, request.policy());
    // The first that fails tells enough: the others mostly fail for the same reason.
    if (!job.ok()) return Said(job.status(), absl::StrCat("with ", combination.values));
    job->id = absl::StrFormat("%s-%03d", request.sweep_id(), jobs.size());
    jobs.push_back(*std::move(job));
  }
  return jobs;
}

absl::Status SweepHandlers::Create(const Caller&, const v1::CreateSweepRequest& request,
                                   v1::Sweep& response) {
  LORSA_RETURN_IF_ERROR(CheckIdentity(request));
  const RequestIdentity identity = IdentityOf(request, request.request_id());
  LORSA_ASSIGN_OR_RETURN(std::optional<v1::Sweep> repeated,
                         catalog_.FindRepeatedSweep(request.sweep_id(), identity));
  if (repeated.has_value()) {
    response = *std::move(repeated);
    return absl::OkStatus();
  }
  LORSA_ASSIGN_OR_RETURN(std::vector<NewJob> jobs, PlanJobs(request));
  if (request.validate_only()) {
    response = SweepOf(request);
    response.set_name(absl::StrCat("sweeps/", request.sweep_id()));
    response.set_jobs(static_cast<int>(jobs.size()));
    return absl::OkStatus();
  }
  LORSA_ASSIGN_OR_RETURN(response, jobs_.CreateSweep({.id = request.sweep_id(),
                                                      .sweep = SweepOf(request),
                                                      .request = identity,
                                                      .jobs = std::move(jobs)}));
  return absl::OkStatus();
}

absl::Status SweepHandlers::Get(const Caller&, const v1::GetSweepRequest& request,
                                v1::Sweep& response) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, SweepIdFrom(request.name(), "name"));
  LORSA_ASSIGN_OR_RETURN(response, catalog_.GetSweep(id));
  return absl::OkStatus();
}

absl::Status SweepHandlers::List(const Caller&, const v1::ListSweepsRequest& request,
                                 v1::ListSweepsResponse& response) {
  LORSA_ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  LORSA_ASSIGN_OR_RETURN(const int64_t before, NumberFromToken(request.page_token()));
  // One more than the page shows whether there is another.
  LORSA_ASSIGN_OR_RETURN(std::vector<StoredSweep> sweeps,
                         catalog_.ListSweeps(before, page_size + 1));
  const auto size = [](const StoredSweep& stored) { return stored.sweep.ByteSizeLong(); };
  if (const size_t fit = ItemsInPage(sweeps, page_size, size); fit < sweeps.size()) {
    sweeps.resize(fit);
    response.set_next_page_token(TokenAfter(sweeps.back().number));
  }
  for (StoredSweep& stored : sweeps) *response.add_sweeps() = std::move(stored.sweep);
  return absl::OkStatus();
}

absl::Status SweepHandlers::Cancel(const Caller&, const v1::CancelSweepRequest& request,
                                   v1::Sweep& response) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, SweepIdFrom(request.name(), "name"));
  LORSA_ASSIGN_OR_RETURN(response, jobs_.CancelSweep(id));
  return absl::OkStatus();
}

}  // namespace lorsa::server

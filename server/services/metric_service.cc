#include "server/services/metric_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "server/jobs/job_name.h"
#include "server/services/job_sources.h"
#include "server/services/paging.h"

namespace lorsa::server {
namespace {

constexpr int kDefaultQueryPoints = 1000;
constexpr int kMaxQueryPoints = 10'000;
constexpr int kMaxEverySteps = 1'000'000;
constexpr int kMaxNames = 64;

absl::Status CheckNames(const google::protobuf::RepeatedPtrField<std::string>& names) {
  if (names.size() <= kMaxNames) return absl::OkStatus();
  return InvalidField("names", absl::StrCat("are ", names.size(), "; give at most ", kMaxNames));
}

absl::Status CheckQuery(const v1::QueryMetricsRequest& request) {
  if (request.kind() != v1::METRIC_KIND_TRAINING && request.kind() != v1::METRIC_KIND_EVALUATION) {
    return InvalidField("kind", "is required: METRIC_KIND_TRAINING or METRIC_KIND_EVALUATION");
  }
  if (request.start_step() < 0) return InvalidField("start_step", "is negative");
  if (request.end_step() < 0) return InvalidField("end_step", "is negative; use 0 for no end");
  if (request.page_size() < 0 || request.page_size() > kMaxQueryPoints) {
    return InvalidField("page_size", absl::StrCat("is not between 0 and ", kMaxQueryPoints));
  }
  if (request.max_points() != 0 && (request.max_points() < 2 || request.page_size() != 0 ||
                                    request.max_points() > kMaxQueryPoints)) {
    return InvalidField("max_points", absl::StrCat("is not between 2 and ", kMaxQueryPoints,
                                                   ", or given together with page_size"));
  }
  return CheckNames(request.names());
}

absl::Status CheckStream(const v1::StreamMetricsRequest& request) {
  if (request.after_sequence() < 0) return InvalidField("after_sequence", "is negative");
  if (request.every_steps() < 0 || request.every_steps() > kMaxEverySteps) {
    return InvalidField("every_steps", absl::StrCat("is not between 0 and ", kMaxEverySteps));
  }
  return CheckNames(request.names());
}

}  // namespace

MetricService::MetricService(const CallEnvironment& calls, Executor& executor,
                             const Catalog& catalog, JobWatchHub& watchers)
    : RpcService("lorsa.v1.MetricService", calls), catalog_(catalog), watchers_(watchers) {
  ServerStreaming({"StreamMetrics", Access::kAnyone, executor}, *this, &MetricService::OpenStream);
  Unary({"QueryMetrics", Access::kAnyone, executor}, *this, &MetricService::Query);
}

OpenedSource<v1::StreamMetricsResponse> MetricService::OpenStream(
    const Caller&, const v1::StreamMetricsRequest& request, Waker waker) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.job(), "job"));
  LORSA_RETURN_IF_ERROR(CheckStream(request));
  return std::make_unique<MetricSource>(catalog_, watchers_, id, request, std::move(waker));
}

absl::Status MetricService::Query(const Caller&, const v1::QueryMetricsRequest& request,
                                  v1::QueryMetricsResponse& response) {
  LORSA_ASSIGN_OR_RETURN(const std::string id, JobIdFrom(request.job(), "job"));
  LORSA_RETURN_IF_ERROR(CheckQuery(request));
  const int page_size = request.page_size() == 0 ? kDefaultQueryPoints : request.page_size();
  const bool thinned = request.max_points() > 0;
  LORSA_ASSIGN_OR_RETURN(
      const MetricsInRange range,
      catalog_.QueryMetrics(id, {.kind = request.kind(),
                                 .start_step = request.start_step(),
                                 .end_step = request.end_step(),
                                 .limit = thinned ? request.max_points() : page_size,
                                 .thinned = thinned,
                                 .names = {request.names().begin(), request.names().end()},
                                 .max_bytes = kMaxPageBytes}));
  if (range.next_step.has_value()) response.set_next_step(*range.next_step);
  response.mutable_points()->Assign(range.points.begin(), range.points.end());
  return absl::OkStatus();
}

}  // namespace lorsa::server

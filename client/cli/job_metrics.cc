#include "client/cli/job_metrics.h"

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cli/format.h"
#include "client/cli/table.h"

namespace lorsa::cli {
namespace {

constexpr int kMaxPage = 10'000;  // of QueryMetrics

struct MetricsOptions {
  std::string job;
  std::string kind = "evaluation";
  int64_t start_step = 0;
  int64_t limit = 1000;
  int32_t max_points = 0;
};

absl::Status QueryAll(Session& session, const MetricsOptions& options,
                      absl::FunctionRef<void(const v1::MetricPoint&)> on_point) {
  v1::QueryMetricsRequest request;
  LORSA_ASSIGN_OR_RETURN(*request.mutable_job(), ResourceName("jobs", options.job));
  request.set_kind(options.kind == "training" ? v1::METRIC_KIND_TRAINING
                                              : v1::METRIC_KIND_EVALUATION);
  request.set_start_step(options.start_step);
  if (options.max_points > 0) {
    request.set_max_points(options.max_points);
    LORSA_ASSIGN_OR_RETURN(const v1::QueryMetricsResponse thinned,
                           session.client.Call(&v1::MetricService::Stub::QueryMetrics, request));
    for (const v1::MetricPoint& point : thinned.points()) on_point(point);
    return absl::OkStatus();
  }
  for (int64_t left = options.limit; left > 0;) {
    request.set_page_size(static_cast<int32_t>(std::min<int64_t>(left, kMaxPage)));
    LORSA_ASSIGN_OR_RETURN(const v1::QueryMetricsResponse page,
                           session.client.Call(&v1::MetricService::Stub::QueryMetrics, request));
    for (const v1::MetricPoint& point : page.points()) on_point(point);
    if (!page.has_next_step() || page.next_step() <= request.start_step()) break;
    request.set_start_step(page.next_step());
    left -= page.points_size();
  }
  return absl::OkStatus();
}

// A column for each name that any point has.
void PrintTable(std::ostream& out, const std::vector<v1::MetricPoint>& points) {
  std::set<std::string> names;
  for (const v1::MetricPoint& point : points) {
    for (const auto& [name, value] : point.values()) names.insert(name);
  }
  std::vector<std::string> headers = {">STEP", ">TOKENS"};
  for (const std::string& name : names) headers.push_back(">" + Printable(name));
  Table table(headers);
  for (const v1::MetricPoint& point : points) {
    std::vector<std::string> row = {FormatCount(point.step()), FormatCount(point.tokens())};
    for (const std::string& name : names) {
      const auto value = point.values().find(name);
      row.push_back(value == point.values().end() ? "-" : FormatNumber(value->second));
    }
    table.AddRow(std::move(row));
  }
  table.Print(out);
}

absl::StatusOr<int> ShowMetrics(Session& session, const MetricsOptions& options) {
  if (session.json) {
    LORSA_RETURN_IF_ERROR(QueryAll(
        session, options, [&](const v1::MetricPoint& point) { PrintJson(session.out(), point); }));
    return kSuccess;
  }
  std::vector<v1::MetricPoint> points;
  LORSA_RETURN_IF_ERROR(
      QueryAll(session, options, [&](const v1::MetricPoint& point) { points.push_back(point); }));
  PrintTable(session.out(), points);
  return kSuccess;
}

}  // namespace

void AddMetricsCommand(CLI::App& job, Action* chosen) {
  const auto options = std::make_shared<MetricsOptions>();
  CLI::App& metrics = AddCommand(
      job, "metrics", "The metrics of a job, a row a step (docs/metrics.md says what they are)",
      "lorsa job metrics demo --kind training --from-step 100", chosen,
      [options](Session& session) { return ShowMetrics(session, *options); });
  metrics.add_option("ID", options->job, "Id of the job")->required();
  metrics.add_option("--kind", options->kind, "evaluation (default) or training")
      ->check(CLI::IsMember({"evaluation", "training"}));
  metrics.add_option("--from-step", options->start_step, "First step to show")
      ->check(CLI::NonNegativeNumber);
  metrics.add_option("--limit", options->limit, "Steps to show at most (default 1000)")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  metrics
      .add_option("--points", options->max_points,
                  "Spread at most so many over the whole run instead of showing the first ones")
      ->check(CLI::Range(2, kMaxPage))
      ->excludes("--limit");
}

}  // namespace lorsa::cli

// What bench/metric_history.sh needs besides lorsad itself: a catalog whose job `week` has ended
// with a long history of training metrics, stored as a worker's batches are.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {
namespace {

constexpr char kJob[] = "week";
constexpr int64_t kBatchPoints = 1000;
constexpr int64_t kTokensPerStep = 2048;
constexpr double kSecondsPerStep = 0.06;  // ten million in a week
// The values of a training point (docs/metrics.md).
constexpr const char* kNames[] = {
    "activation_max",
    "activation_mean",
    "aux_loss",
    "data_wait_fraction",
    "dead_fraction",
    "dense_fraction",
    "explained_variance",
    "fvu",
    "gradient_norm",
    "l0",
    "learning_rate",
    "loss",
    "memory_bytes",
    "mse",
    "peak_memory_bytes",
    "qk_learning_rate",
    "resampled_heads",
    "rollbacks",
    "skipped_batches",
    "tokens_per_second",
    "top_k",
    "update_ratio",
};

absl::Status To(Catalog& catalog, v1::JobState state, JobChange change = {}) {
  change.state = state;
  change.reason = "BENCH";
  return catalog
      .UpdateJob(kJob, absl::Now(),
                 [&](const JobRecord&) -> absl::StatusOr<JobChange> { return change; })
      .status();
}

void Fill(v1::MetricPoint& point, int64_t step, absl::Time start) {
  const absl::Time time = start + absl::Seconds(kSecondsPerStep * static_cast<double>(step));
  point.set_kind(v1::METRIC_KIND_TRAINING);
  point.set_step(step);
  point.set_tokens(step * kTokensPerStep);
  point.mutable_time()->set_seconds(absl::ToUnixSeconds(time));
  double value = 1.0 / static_cast<double>(step);
  for (const char* name : kNames) (*point.mutable_values())[name] = value += 0.1;
}

absl::Status Store(Catalog& catalog, int64_t points) {
  const absl::Time start = absl::Now();
  std::vector<v1::MetricPoint> batch;
  for (int64_t stored = 0; stored < points; stored += static_cast<int64_t>(batch.size())) {
    batch.resize(static_cast<size_t>(std::min(kBatchPoints, points - stored)));
    for (size_t i = 0; i < batch.size(); ++i) Fill(batch[i], stored + i + 1, start);
    const int64_t number = stored / kBatchPoints + 1;
    LORSA_RETURN_IF_ERROR(catalog.PutMetrics({kJob, 1}, number, batch));
  }
  return absl::OkStatus();
}

absl::Status Make(const std::string& path, int64_t points) {
  LORSA_ASSIGN_OR_RETURN(const auto catalog, Catalog::Open(path));
  NewJob job;
  job.id = kJob;
  job.spec.mutable_training()->set_activation_set("set");
  job.resolved_spec = job.spec;
  LORSA_RETURN_IF_ERROR(catalog->CreateJob(job, absl::Now()).status());
  JobChange begins;
  begins.new_attempt_token_sha256 = "bench";
  LORSA_RETURN_IF_ERROR(To(*catalog, v1::JOB_STATE_STARTING, begins));
  LORSA_RETURN_IF_ERROR(To(*catalog, v1::JOB_STATE_RUNNING));
  LORSA_RETURN_IF_ERROR(Store(*catalog, points));
  return To(*catalog, v1::JOB_STATE_SUCCEEDED);
}

int Run(int argc, char** argv) {
  CLI::App app("Makes a catalog with a long metric history; see bench/metric_history.sh");
  std::string path;
  int64_t points = 0;
  app.add_option("catalog", path, "File to make")->required();
  app.add_option("points", points)->required()->check(CLI::Range(1, 1 << 30));
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Make(path, points);
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "metric_history_bench: %s\n", std::string(status.message()).c_str());
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace lorsa::server

int main(int argc, char** argv) { return lorsa::server::Run(argc, argv); }

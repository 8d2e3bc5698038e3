#include "server/metrics_endpoint.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/exception_wall.h"
#include "base/memory_use.h"
#include "base/status_macros.h"
#include "server/model/job_state.h"

namespace lorsa::server {
namespace {

constexpr int kMaxJobs = 1000;  // that have metrics of their own

class Family {
 public:
  Family(std::string name, std::string help) {
    family_.name = std::move(name);
    family_.help = std::move(help);
    family_.type = prometheus::MetricType::Gauge;
  }
  void Add(double value) { AddMetric(value); }
  void Add(double value, std::vector<prometheus::ClientMetric::Label> labels) {
    AddMetric(value).label = std::move(labels);
  }
  prometheus::MetricFamily Take() && { return std::move(family_); }

 private:
  prometheus::ClientMetric& AddMetric(double value) {
    prometheus::ClientMetric& metric = family_.metric.emplace_back();
    metric.gauge.value = value;
    return metric;
  }
  prometheus::MetricFamily family_;
};

class ServerMetrics final : public prometheus::Collectable {
 public:
  explicit ServerMetrics(const MetricsEnvironment& environment) : env_(environment) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    const absl::Status collected = CatchExceptions([&] {
      AddJobs(families);
      AddProgress(families);
      AddData(families);
      AddConditions(families);
      AddProcess(families);
      return absl::OkStatus();
    });
    if (!collected.ok()) spdlog::error("event=metrics_failed error=\"{}\"", collected.ToString());
    return families;
  }

 private:
  using Families = std::vector<prometheus::MetricFamily>;

  static void AddGauge(Families& families, const char* name, const char* help, double value) {
    Family family(name, help);
    family.Add(value);
    families.push_back(std::move(family).Take());
  }

  void AddJobs(Families& families) const {
    auto counts = env_.catalog.CountJobsByState();
    if (!counts.ok()) return;
    Family jobs("lorsa_jobs", "Jobs in each state.");
    for (int i = v1::JOB_STATE_QUEUED; i < v1::JobState_ARRAYSIZE; ++i) {
      const auto state = static_cast<v1::JobState>(i);
      jobs.Add(static_cast<double>((*counts)[state]),
               {{"state", std::string(JobStateName(state))}});
    }
    families.push_back(std::move(jobs).Take());
  }

  void AddProgress(Families& families) const {
    const auto running = env_.jobs.ListJobs({.state = v1::JOB_STATE_RUNNING, .limit = kMaxJobs});
    if (!running.ok()) return;
    Family values("lorsa_job_progress", "Values that each running job reports.");
    Family step("lorsa_job_step", "Step of each running job.");
    for (const StoredJob& stored : *running) {
      const v1::Job& job = stored.record.job;
      step.Add(static_cast<double>(job.progress().step()), {{"job", job.name()}});
      for (const v1::ProgressValue& value : job.progress().values()) {
        values.Add(value.value(), {{"job", job.name()}, {"name", value.name()}});
      }
    }
    families.push_back(std::move(values).Take());
    families.push_back(std::move(step).Take());
  }

  void AddData(Families& families) const {
    if (const auto free = env_.fs.FreeBytes(env_.layout.root()); free.ok()) {
      AddGauge(families, "lorsa_data_free_bytes", "Free on the disk of the data folder.",
               static_cast<double>(*free));
    }
    std::error_code error;
    const auto bytes = std::filesystem::file_size(env_.layout.CatalogFile(), error);
    if (!error) {
      AddGauge(families, "lorsa_catalog_bytes", "Size of the catalog, without its log.",
               static_cast<double>(bytes));
    }
  }

  void AddConditions(Families& families) const {
    Family family("lorsa_condition", "1 while something is wrong, by its reason.");
    for (const char* reason :
         {kRecovering, kDraining, kDiskReserve, kCatalogUnreadable, kCatalogReadOnly, kDamagedData,
          kLaunchFailed, kTooManyStreams, kTooManyConnections}) {
      family.Add(env_.conditions.Holds(reason) ? 1 : 0, {{"reason", reason}});
    }
    families.push_back(std::move(family).Take());
  }

  void AddProcess(Families& families) const {
    AddGauge(families, "lorsa_start_time_seconds", "When the server started, Unix time.",
             absl::ToDoubleSeconds(env_.start_time - absl::UnixEpoch()));
    Family waiting("lorsa_executor_waiting", "Calls that no thread has taken up yet.");
    const auto add = [&waiting](const Executor& lane, const char* name) {
      waiting.Add(static_cast<double>(lane.queued()), {{"lane", name}});
    };
    add(env_.lanes.reads, "reads");
    add(env_.lanes.writes, "writes");
    add(env_.lanes.workers, "workers");
    add(env_.lanes.data, "data");
    add(env_.lanes.downloads, "downloads");
    add(env_.lanes.files, "files");
    families.push_back(std::move(waiting).Take());
    if (const auto memory = ReadMemoryUse(); memory.ok()) {
      AddGauge(families, "process_resident_memory_bytes", "Memory of the server.",
               static_cast<double>(memory->resident));
    }
    std::error_code error;
    const auto descriptors = std::filesystem::directory_iterator("/proc/self/fd", error);
    AddGauge(families, "process_open_fds", "Open files and connections.",
             static_cast<double>(std::distance(begin(descriptors), end(descriptors))));
  }

  const MetricsEnvironment env_;
};

class PrometheusEndpoint final : public MetricsEndpoint {
 public:
  // Throws if the address cannot be bound.
  PrometheusEndpoint(const std::string& listen, const MetricsEnvironment& environment)
      : exposer_(listen),
        metrics_(std::make_shared<ServerMetrics>(environment)),
        calls_(environment.calls.collectable()) {
    exposer_.RegisterCollectable(metrics_);
    exposer_.RegisterCollectable(calls_);
  }
  int port() const override { return exposer_.GetListeningPorts().front(); }

 private:
  prometheus::Exposer exposer_;
  // The exposer holds these weakly.
  const std::shared_ptr<ServerMetrics> metrics_;
  const std::shared_ptr<prometheus::Collectable> calls_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const std::string& listen, const MetricsEnvironment& environment) {
  // civetweb takes numbers only.
  const std::string address =
      absl::StartsWith(listen, "localhost:") ? absl::StrCat("127.0.0.1", listen.substr(9)) : listen;
  try {
    return std::make_unique<PrometheusEndpoint>(address, environment);
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("cannot serve metrics on ", listen, ": ",
                                               error.what(),
                                               "; name another address with --metrics-listen"));
  }
}

}  // namespace lorsa::server

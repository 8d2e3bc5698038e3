#include "server/condition_monitor.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/exception_wall.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

constexpr auto kInterval = std::chrono::seconds(1);

constexpr char kFullMessage[] =
    "new connections are turned away, since nearly all descriptors of the process are in use: "
    "close connections, or raise the limit on open files of lorsad";
constexpr int kMaxNamed = 10;  // damaged checkpoints in a message

constexpr const char* kServices[] = {"lorsa.v1.ActivationService", "lorsa.v1.CheckpointService",
                                     "lorsa.v1.MetricService", "lorsa.v1.ServerInfoService",
                                     "lorsa.v1.WorkerService"};

// Empty if the disk has enough room. A fixed text, so that it is no other condition at each look.
std::string DiskMessage(const MonitorEnvironment& env) {
  const absl::StatusOr<uint64_t> free_bytes = env.fs.FreeBytes(env.data_folder);
  if (!free_bytes.ok()) return std::string(free_bytes.status().message());
  if (static_cast<int64_t>(*free_bytes) >= env.disk_reserve_bytes) return "";
  return absl::StrCat("the disk of ", env.data_folder, " has less than ",
                      env.disk_reserve_bytes >> 20,
                      " MiB free: nothing new is started; make room, or lower disk_reserve_bytes");
}

std::string LaunchMessage(const MonitorEnvironment& env) {
  const std::string problem = env.launch_problem();
  if (problem.empty()) return "";
  return absl::StrCat("workers cannot be started: ", problem, "; jobs wait until they can");
}

std::string CatalogMessage(const Catalog& catalog) {
  const absl::Status status = catalog.CheckReadable();
  return status.ok() ? "" : std::string(status.message());
}

// While it holds, each look is a try to write, so that it ends by itself.
std::string ReadOnlyMessage(const MonitorEnvironment& env) {
  const absl::Status status = env.catalog.CheckWritable();
  if (status.ok()) return "";
  return absl::StrCat("the catalog can only be read (", status.message(),
                      "), and nothing is started: if the disk of ", env.data_folder,
                      " is full, delete jobs or make room; if it is read-only, repair it");
}

absl::StatusOr<std::string> DamageMessage(const Catalog& catalog) {
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::ActivationSet> sets, catalog.QuarantinedSets());
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> checkpoints,
                         catalog.DamagedCheckpoints(kMaxNamed));
  std::vector<std::string> names;
  for (const v1::ActivationSet& set : sets) names.push_back(set.name());
  for (const v1::Checkpoint& checkpoint : checkpoints) names.push_back(checkpoint.name());
  if (names.empty()) return "";
  return absl::StrCat("damaged: ", absl::StrJoin(names, ", "),
                      "; restore the files of a set and verify it; delete a checkpoint, or restore "
                      "its files and wait for the next look at it");
}

}  // namespace

void ReportHealth(const ServerConditions& conditions, grpc::HealthCheckServiceInterface& health) {
  const bool answers = !conditions.Holds(kRecovering) && !conditions.Holds(kDraining) &&
                       !conditions.Holds(kCatalogUnreadable);
  const bool starts_jobs = answers && !conditions.Holds(kDiskReserve) &&
                           !conditions.Holds(kCatalogReadOnly) && !conditions.Holds(kLaunchFailed);
  for (const char* service : kServices) health.SetServingStatus(service, answers);
  health.SetServingStatus("lorsa.v1.JobService", starts_jobs);
  health.SetServingStatus("", starts_jobs);
  health.SetServingStatus(kStoredDataHealth, !conditions.Holds(kDamagedData));
}

void LookOnce(const MonitorEnvironment& env) {
  env.conditions.Set(kDiskReserve, DiskMessage(env));
  env.conditions.Set(kCatalogUnreadable, CatalogMessage(env.catalog));
  env.conditions.Set(kCatalogReadOnly, ReadOnlyMessage(env));
  // While it cannot be read, which is a condition of its own, the damage known so far stands.
  const absl::StatusOr<std::string> damage = DamageMessage(env.catalog);
  if (damage.ok()) env.conditions.Set(kDamagedData, *damage);
  env.conditions.Set(kTooManyStreams, env.stream_shortage());
  env.conditions.Set(kLaunchFailed, LaunchMessage(env));
  env.conditions.Set(kTooManyConnections, env.is_full() ? kFullMessage : "");
  ReportHealth(env.conditions, env.health);
}

ConditionMonitor::ConditionMonitor(const MonitorEnvironment& environment)
    : env_(environment), thread_([this](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          const absl::Status looked = CatchExceptions([this] {
            LookOnce(env_);
            return absl::OkStatus();
          });
          if (!looked.ok()) spdlog::error("event=look_failed error=\"{}\"", looked.ToString());
          wake.wait_for(lock, stop, kInterval, [] { return false; });
        }
      }) {}

}  // namespace lorsa::server

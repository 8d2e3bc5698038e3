// Looks once a second at the disk, the catalog and what is known of damage, says what is wrong, and
// keeps the answers of grpc.health.v1 in step.
#ifndef LORSA_SERVER_CONDITION_MONITOR_H_
#define LORSA_SERVER_CONDITION_MONITOR_H_

#include <grpcpp/health_check_service_interface.h>

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "base/file_system.h"
#include "server/catalog/catalog.h"
#include "server/services/server_conditions.h"

namespace lorsa::server {

// Asked for in place of a service, it is NOT_SERVING while damage of stored data is known.
inline constexpr char kStoredDataHealth[] = "lorsa.v1.StoredData";

// What the health service says of `conditions`, and from now on whoever watches it hears:
//   each service        NOT_SERVING while recovering, draining or the catalog cannot be read
//   "" and JobService   besides, while the disk is nearly full or takes nothing, or workers cannot
//   be
//                       started: no job can start, what is there can be read
//   kStoredDataHealth   NOT_SERVING while damage is known
void ReportHealth(const ServerConditions& conditions, grpc::HealthCheckServiceInterface& health);

struct MonitorEnvironment {
  Catalog& catalog;
  FileSystem& fs;
  ServerConditions& conditions;
  grpc::HealthCheckServiceInterface& health;
  // What to say while clients have all streams that the server serves; empty if they have not.
  std::function<std::string()> stream_shortage = [] { return std::string(); };
  std::string data_folder;
  int64_t disk_reserve_bytes = 0;
  // Why no worker can be started; empty if nothing is known to be in the way.
  std::function<std::string()> launch_problem = [] { return std::string(); };
  // Whether connections are turned away, since the process has no descriptors for them.
  std::function<bool()> is_full = [] { return false; };
};

// One look: sets DISK_RESERVE, CATALOG_UNREADABLE, CATALOG_READ_ONLY, DAMAGED_DATA, LAUNCH_FAILED,
// TOO_MANY_STREAMS and TOO_MANY_CONNECTIONS, or takes them off, and reports.
void LookOnce(const MonitorEnvironment& environment);

// Looks once a second, on a thread of its own, as long as it lives.
class ConditionMonitor {
 public:
  // All of the environment outlives this.
  explicit ConditionMonitor(const MonitorEnvironment& environment);

 private:
  const MonitorEnvironment env_;
  std::jthread thread_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CONDITION_MONITOR_H_

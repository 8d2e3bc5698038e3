// The server's state for Prometheus, over HTTP on a loopback address: GET /metrics.
//
//   lorsa_jobs{state="RUNNING"}             jobs in each state
//   lorsa_job_progress{job="…",name="…"}     values of each running job (JobProgress)
//   lorsa_job_step{job="…"}
//   lorsa_condition{reason="DISK_RESERVE"}  1 while it holds, 0 while not
//   lorsa_data_free_bytes, lorsa_catalog_bytes
//   lorsa_start_time_seconds
//   lorsa_executor_waiting{lane="reads"}  calls that no thread has taken up yet
//   process_resident_memory_bytes, process_open_fds
//   and those of calls (call_records.h)
#ifndef LORSA_SERVER_METRICS_ENDPOINT_H_
#define LORSA_SERVER_METRICS_ENDPOINT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_manager.h"
#include "server/model/data_layout.h"
#include "server/rpc/call_lanes.h"
#include "server/rpc/call_records.h"
#include "server/services/server_conditions.h"

namespace lorsa::server {

struct MetricsEnvironment {
  const Catalog& catalog;
  const JobManager& jobs;
  FileSystem& fs;
  const ServerConditions& conditions;
  CallLanes lanes;
  const CallRecords& calls;
  DataLayout layout;
  absl::Time start_time;
};

// Serves as long as it lives, on threads of its own. What cannot be read just now is left out of an
// answer.
class MetricsEndpoint {
 public:
  // `listen` is HOST:PORT; UNAVAILABLE if the port is taken. All of the environment outlives the
  // endpoint.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const std::string& listen, const MetricsEnvironment& environment);
  virtual ~MetricsEndpoint() = default;
  virtual int port() const = 0;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_METRICS_ENDPOINT_H_

#include "server/services/server_info_service.h"

#include <google/protobuf/util/time_util.h>
#include <unistd.h>

#include "base/cpu_count.h"
#include "base/status_macros.h"

namespace lorsa::server {

ServerInfoService::ServerInfoService(const CallEnvironment& calls, Executor& executor,
                                     Catalog& catalog, FileSystem& fs,
                                     const ServerConditions& conditions,
                                     ServerDescription description)
    : RpcService("lorsa.v1.ServerInfoService", calls),
      catalog_(catalog),
      fs_(fs),
      conditions_(conditions),
      description_(std::move(description)) {
  Unary({"GetServerInfo", Access::kAnyone, executor}, *this, &ServerInfoService::Get);
}

absl::Status ServerInfoService::Get(const Caller&, const v1::GetServerInfoRequest&,
                                    v1::ServerInfo& info) {
  info.set_version(description_.version);
  *info.mutable_start_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      absl::ToUnixNanos(description_.start_time));
  for (const std::string& root : description_.activation_roots) info.add_activation_roots(root);
  LORSA_ASSIGN_OR_RETURN(const uint64_t free_bytes, fs_.FreeBytes(description_.data_folder));
  info.set_data_free_bytes(static_cast<int64_t>(free_bytes));
  info.set_cpu_cores(UsableCpus());
  info.set_memory_bytes(int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE));
  LORSA_ASSIGN_OR_RETURN(const auto running, catalog_.ActiveJobs());
  info.set_running_jobs(static_cast<int32_t>(running.size()));
  LORSA_ASSIGN_OR_RETURN(const int64_t queued, catalog_.CountJobs(v1::JOB_STATE_QUEUED));
  info.set_queued_jobs(static_cast<int32_t>(queued));
  info.set_max_running_jobs(description_.max_running_jobs);
  info.set_max_message_bytes(description_.max_message_bytes);
  info.set_disk_reserve_bytes(description_.disk_reserve_bytes);
  for (v1::ServerCondition& condition : conditions_.All()) {
    *info.add_conditions() = std::move(condition);
  }
  return absl::OkStatus();
}

}  // namespace lorsa::server

// lorsa.v1.ServerInfoService. The contract of its method stands in the proto.
#ifndef LORSA_SERVER_SERVICES_SERVER_INFO_SERVICE_H_
#define LORSA_SERVER_SERVICES_SERVER_INFO_SERVICE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "lorsa/v1/server_info_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/rpc/rpc_service.h"
#include "server/services/server_conditions.h"

namespace lorsa::server {

// What is told of the server besides what is measured at each call.
struct ServerDescription {
  std::string version;
  absl::Time start_time;
  std::vector<std::string> activation_roots;
  std::string data_folder;
  int max_running_jobs = 1;
  int64_t max_message_bytes = 0;
  int64_t disk_reserve_bytes = 0;
};

class ServerInfoService final : public RpcService {
 public:
  // `catalog`, `fs` and `conditions` outlive the service; the service outlives the gRPC server.
  // Calls run on `executor`.
  ServerInfoService(const CallEnvironment& calls, Executor& executor, Catalog& catalog,
                    FileSystem& fs, const ServerConditions& conditions,
                    ServerDescription description);

 private:
  absl::Status Get(const Caller&, const v1::GetServerInfoRequest&, v1::ServerInfo& info);

  Catalog& catalog_;
  FileSystem& fs_;
  const ServerConditions& conditions_;
  const ServerDescription description_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SERVER_INFO_SERVICE_H_

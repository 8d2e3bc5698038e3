// lorsa.v1.ServerInfoService. The contract of its method stands in the proto.
#ifndef LORSA_SERVER_SERVICES_SERVER_INFO_SERVICE_H_
#define LORSA_SERVER_SERVICES_SERVER_INFO_SERVICE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "lorsa/v1/server_info_service.grpc.pb.h"
#include "server/catalog/catalog.h"
#include "server/rpc/call_runtime.h"
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

class ServerInfoService final : public v1::ServerInfoService::CallbackService {
 public:
  // `catalog`, `fs` and `conditions` outlive the service; the service outlives the gRPC server.
  ServerInfoService(CallRuntime runtime, Catalog& catalog, FileSystem& fs,
                    const ServerConditions& conditions, ServerDescription description)
      : runtime_(runtime),
        catalog_(catalog),
        fs_(fs),
        conditions_(conditions),
        description_(std::move(description)) {}

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const v1::GetServerInfoRequest* request,
                                          v1::ServerInfo* response) override;

 private:
  absl::Status Fill(v1::ServerInfo& info);

  const CallRuntime runtime_;
  Catalog& catalog_;
  FileSystem& fs_;
  const ServerConditions& conditions_;
  const ServerDescription description_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_SERVER_INFO_SERVICE_H_

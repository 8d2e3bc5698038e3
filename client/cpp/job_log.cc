#include "lorsa/client/job_log.h"

namespace lorsa::client {

absl::Status ReadJobLog(Client& client, const v1::ReadLogsRequest& request,
                        absl::FunctionRef<void(const v1::ReadLogsResponse&)> on_lines,
                        const OutageFunction& on_outage) {
  v1::ReadLogsRequest rest = request;
  const auto connect = [&](bool& received) {
    return client.Stream(&v1::JobService::Stub::ReadLogs, rest,
                         [&](const v1::ReadLogsResponse& response) {
                           received = true;
                           // An older server sends none.
                           if (response.has_end()) *rest.mutable_start() = response.end();
                           on_lines(response);
                           return absl::OkStatus();
                         });
  };
  return client.KeepConnected(connect, on_outage);
}

}  // namespace lorsa::client

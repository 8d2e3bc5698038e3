#include "lorsa/client/job_log.h"

#include <algorithm>

namespace lorsa::client {

absl::Status ReadJobLog(Client& client, const v1::ReadLogsRequest& request,
                        absl::FunctionRef<void(const v1::ReadLogsResponse&)> on_lines,
                        const OutageFunction& on_outage) {
  size_t seen = 0;  // bytes passed on
  // A log has no position to go on from: what was seen is read again and left out.
  const auto connect = [&](bool& received) {
    size_t to_skip = seen;
    return client.Stream(&v1::JobService::Stub::ReadLogs, request,
                         [&](const v1::ReadLogsResponse& response) {
                           const size_t old = std::min(to_skip, response.text().size());
                           to_skip -= old;
                           if (old == response.text().size()) return absl::OkStatus();
                           received = true;
                           v1::ReadLogsResponse fresh = response;
                           fresh.mutable_text()->erase(0, old);
                           seen += fresh.text().size();
                           on_lines(fresh);
                           return absl::OkStatus();
                         });
  };
  return client.KeepConnected(connect, on_outage);
}

}  // namespace lorsa::client

#include "lorsa/client/metric_stream.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::client {

absl::StatusOr<v1::JobState> StreamMetrics(Client& client, const v1::StreamMetricsRequest& request,
                                           absl::FunctionRef<void(const v1::MetricPoint&)> on_point,
                                           const OutageFunction& on_outage) {
  v1::StreamMetricsRequest from = request;  // after_sequence moves on with each point
  v1::JobState final_state = v1::JOB_STATE_UNSPECIFIED;
  const auto handle = [&](const v1::StreamMetricsResponse& response) {
    for (const v1::MetricPoint& point : response.points()) {
      if (point.sequence() <= from.after_sequence()) continue;  // Seen before the reconnection.
      from.set_after_sequence(point.sequence());
      on_point(point);
    }
    final_state = response.final_state();
    return absl::OkStatus();
  };
  const auto connect = [&](bool& received) -> absl::Status {
    LORSA_RETURN_IF_ERROR(client.Stream(&v1::MetricService::Stub::StreamMetrics, from,
                                        [&](const v1::StreamMetricsResponse& response) {
                                          received = true;
                                          return handle(response);
                                        }));
    if (final_state != v1::JOB_STATE_UNSPECIFIED || from.history_only()) return absl::OkStatus();
    received = false;  // A server that keeps closing the stream is not pressed harder.
    return ConnectionError(absl::StrCat("the server closed the metrics of ", from.job()));
  };
  LORSA_RETURN_IF_ERROR(client.KeepConnected(connect, on_outage));
  return final_state;
}

}  // namespace lorsa::client

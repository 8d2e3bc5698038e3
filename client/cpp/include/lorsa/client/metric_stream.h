// The metrics of a job, history and live, across restarts of the server.
#ifndef LORSA_CLIENT_METRIC_STREAM_H_
#define LORSA_CLIENT_METRIC_STREAM_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lorsa/client/client.h"
#include "lorsa/v1/metric_service.pb.h"

namespace lorsa::client {

// Calls `on_point` for each point after request.after_sequence once, in commit order, until the
// stream's last message; reconnects by itself. Returns the job's final state; unspecified if
// request.history_only is set and the job has not ended.
absl::StatusOr<v1::JobState> StreamMetrics(Client& client, const v1::StreamMetricsRequest& request,
                                           absl::FunctionRef<void(const v1::MetricPoint&)> on_point,
                                           const OutageFunction& on_outage);

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_METRIC_STREAM_H_

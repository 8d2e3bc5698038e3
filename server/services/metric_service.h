// lorsa.v1.MetricService. The contract of each method stands in the proto.
#ifndef LORSA_SERVER_SERVICES_METRIC_SERVICE_H_
#define LORSA_SERVER_SERVICES_METRIC_SERVICE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lorsa/v1/metric_service.grpc.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_watch.h"
#include "server/rpc/call_runtime.h"
#include "server/rpc/server_stream.h"

namespace lorsa::server {

class MetricService final : public v1::MetricService::CallbackService {
 public:
  // Both outlive the service; the service outlives the gRPC server.
  MetricService(const CallRuntime& runtime, const Catalog& catalog, JobWatchHub& watchers)
      : runtime_(runtime), catalog_(catalog), watchers_(watchers) {}

  grpc::ServerWriteReactor<v1::StreamMetricsResponse>* StreamMetrics(
      grpc::CallbackServerContext* context, const v1::StreamMetricsRequest* request) override;
  grpc::ServerUnaryReactor* QueryMetrics(grpc::CallbackServerContext* context,
                                         const v1::QueryMetricsRequest* request,
                                         v1::QueryMetricsResponse* response) override;

 private:
  absl::StatusOr<std::unique_ptr<StreamSource<v1::StreamMetricsResponse>>> OpenStream(
      const v1::StreamMetricsRequest& request, Waker waker);
  absl::Status Query(const v1::QueryMetricsRequest& request, v1::QueryMetricsResponse& response);

  const CallRuntime runtime_;
  const Catalog& catalog_;
  JobWatchHub& watchers_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_METRIC_SERVICE_H_

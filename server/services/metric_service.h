// lorsa.v1.MetricService. The contract of each method stands in the proto.
#ifndef LORSA_SERVER_SERVICES_METRIC_SERVICE_H_
#define LORSA_SERVER_SERVICES_METRIC_SERVICE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lorsa/v1/metric_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_watch.h"
#include "server/rpc/rpc_service.h"

namespace lorsa::server {

class MetricService final : public RpcService {
 public:
  // Calls run on `executor`. All outlive the service; the service outlives the gRPC server.
  MetricService(const CallEnvironment& calls, Executor& executor, const Catalog& catalog,
                JobWatchHub& watchers);

 private:
  OpenedSource<v1::StreamMetricsResponse> OpenStream(const Caller&,
                                                     const v1::StreamMetricsRequest& request,
                                                     Waker waker);
  absl::Status Query(const Caller&, const v1::QueryMetricsRequest& request,
                     v1::QueryMetricsResponse& response);

  const Catalog& catalog_;
  JobWatchHub& watchers_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_METRIC_SERVICE_H_

// What became of calls: numbers for Prometheus, and a line in the log for each call that failed.
//
//   grpc_server_started_total{grpc_service, grpc_method}
//   grpc_server_handled_total{grpc_service, grpc_method, grpc_code}
//   grpc_server_handling_seconds{grpc_service, grpc_method}      histogram, from arrival to status
//
// The names are those of go-grpc-prometheus, so that dashboards made for it show lorsad too.
#ifndef LORSA_SERVER_RPC_CALL_RECORDS_H_
#define LORSA_SERVER_RPC_CALL_RECORDS_H_

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"

namespace lorsa::server {

// A call that ended.
struct EndedCall {
  absl::string_view method;  // full name
  absl::string_view peer;    // as gRPC writes it: "ipv4:127.0.0.1:4242"
  absl::string_view request_id;
  absl::Duration duration;  // from its arrival
};

// Lines of failed calls. At most kLinesPerSecond of them a second: a storm of calls that fail does
// not fill the disk. What is left out is counted, and the next line that is written says how many.
// Thread-safe.
class FailedCallLog {
 public:
  static constexpr int kLinesPerSecond = 20;

  explicit FailedCallLog(std::function<absl::Duration()> uptime = MonotonicNow)
      : uptime_(std::move(uptime)) {}

  // What the server is to blame for is a warning, a call that its client cancelled is for
  // debugging, and everything else is information.
  void Write(const EndedCall& call, const absl::Status& status);

 private:
  // Whether a line may be written, and if so how many were left out before it.
  bool Admit(int64_t& left_out);

  const std::function<absl::Duration()> uptime_;
  absl::Mutex mutex_;
  absl::Duration second_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();  // when it began
  int lines_ ABSL_GUARDED_BY(mutex_) = 0;                                      // in it
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Those of one method.
struct MethodRecords {
  std::map<std::string, std::string> labels;
  prometheus::Counter& started;
  prometheus::Histogram& seconds;
};

// Thread-safe. Outlives the gRPC server.
class CallRecords {
 public:
  CallRecords();

  // Those of a method, by its full name ("lorsa.v1.JobService.GetJob"). They live as long as this.
  MethodRecords Of(absl::string_view method);
  // A call of the method of `records` has ended with `status`.
  void Ended(const MethodRecords& records, const EndedCall& call, const absl::Status& status);

  // For an exposer, which holds it weakly.
  std::shared_ptr<prometheus::Collectable> collectable() const { return registry_; }

 private:
  const std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  prometheus::Family<prometheus::Counter>& started_;
  prometheus::Family<prometheus::Counter>& handled_;
  prometheus::Family<prometheus::Histogram>& seconds_;
  FailedCallLog log_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_RPC_CALL_RECORDS_H_

#include "server/rpc/call_records.h"

#include <spdlog/spdlog.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"

namespace lorsa::server {
namespace {

// From what a look into memory takes to what publishing a large checkpoint takes.
const prometheus::Histogram::BucketBoundaries kSeconds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                          1,     3,     10,   30,   100};

spdlog::level::level_enum LevelOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kCancelled:
      return spdlog::level::debug;
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return spdlog::level::warn;
    default:
      return spdlog::level::info;
  }
}

}  // namespace

void FailedCallLog::Write(const EndedCall& call, const absl::Status& status) {
  const auto level = LevelOf(status.code());
  int64_t left_out = 0;
  if (!spdlog::should_log(level) || !Admit(left_out)) return;
  if (left_out > 0) spdlog::warn("event=failed_calls_not_logged count={}", left_out);
  spdlog::log(level,
              "event=call_failed method={} code={} reason={} peer={} seconds={:.3f} request={} "
              "error=\"{}\"",
              std::string(call.method), absl::StatusCodeToString(status.code()), ReasonOf(status),
              std::string(call.peer), absl::ToDoubleSeconds(call.duration),
              std::string(call.request_id), absl::Utf8SafeCEscape(status.message()));
}

bool FailedCallLog::Admit(int64_t& left_out) {
  absl::MutexLock lock(&mutex_);
  const absl::Duration now = uptime_();
  if (now - second_ >= absl::Seconds(1)) {
    second_ = now;
    lines_ = 0;
  }
  if (lines_ == kLinesPerSecond) {
    ++left_out_;
    return false;
  }
  ++lines_;
  left_out = std::exchange(left_out_, 0);
  return true;
}

CallRecords::CallRecords()
    : started_(prometheus::BuildCounter()
                   .Name("grpc_server_started_total")
                   .Help("Calls that arrived.")
                   .Register(*registry_)),
      handled_(prometheus::BuildCounter()
                   .Name("grpc_server_handled_total")
                   .Help("Calls that ended, by the code of their status.")
                   .Register(*registry_)),
      seconds_(prometheus::BuildHistogram()
                   .Name("grpc_server_handling_seconds")
                   .Help("From the arrival of a call to its status.")
                   .Register(*registry_)) {}

MethodRecords CallRecords::Of(absl::string_view method) {
  const size_t dot = method.rfind('.');
  const std::map<std::string, std::string> labels = {
      {"grpc_service", std::string(method.substr(0, dot))},
      {"grpc_method", std::string(method.substr(dot + 1))}};
  return {
      .labels = labels, .started = started_.Add(labels), .seconds = seconds_.Add(labels, kSeconds)};
}

void CallRecords::Ended(const MethodRecords& records, const EndedCall& call,
                        const absl::Status& status) {
  auto labels = records.labels;
  labels["grpc_code"] = absl::StatusCodeToString(status.code());
  handled_.Add(labels).Increment();
  records.seconds.Observe(absl::ToDoubleSeconds(call.duration));
  if (!status.ok()) log_.Write(call, status);
}

}  // namespace lorsa::server

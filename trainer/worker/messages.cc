#include "trainer/worker/messages.h"

#include <google/protobuf/util/time_util.h>

namespace lorsa::worker {
namespace {

using google::protobuf::util::TimeUtil;

const char* ReasonFor(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return "INVALID_SPEC";
    case absl::StatusCode::kFailedPrecondition:
      return "CANNOT_START";
    case absl::StatusCode::kDataLoss:
      return "INVALID_DATA";
    case absl::StatusCode::kAborted:
      return "NOT_FINITE";
    case absl::StatusCode::kResourceExhausted:
      return "OUT_OF_MEMORY";
    default:
      return "WORKER_ERROR";
  }
}

v1::WorkerOutcome::Kind KindOf(trainer::RunOutcome::Kind kind) {
  switch (kind) {
    case trainer::RunOutcome::Kind::kSucceeded:
      return v1::WorkerOutcome::KIND_SUCCEEDED;
    case trainer::RunOutcome::Kind::kPaused:
      return v1::WorkerOutcome::KIND_PAUSED;
    case trainer::RunOutcome::Kind::kCancelled:
      return v1::WorkerOutcome::KIND_CANCELLED;
    case trainer::RunOutcome::Kind::kDrained:
      return v1::WorkerOutcome::KIND_DRAINED;
  }
  return v1::WorkerOutcome::KIND_UNSPECIFIED;
}

}  // namespace

v1::MetricPoint ToMessage(const trainer::MetricPoint& point, absl::Time now) {
  v1::MetricPoint message;
  message.set_kind(point.kind == trainer::MetricKind::kTraining ? v1::METRIC_KIND_TRAINING
                                                                : v1::METRIC_KIND_EVALUATION);
  message.set_step(point.step);
  message.set_tokens(point.tokens);
  const int64_t nanos = absl::ToUnixNanos(now);
  message.mutable_time()->set_seconds(nanos / 1'000'000'000);
  message.mutable_time()->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  message.mutable_values()->insert(point.values.begin(), point.values.end());
  return message;
}

v1::JobProgress ToMessage(const trainer::Progress& progress) {
  v1::JobProgress message;
  message.set_step(progress.step);
  message.set_total_steps(progress.total_steps);
  message.set_phase(progress.phase);
  if (progress.remaining_seconds.has_value()) {
    *message.mutable_remaining() = TimeUtil::NanosecondsToDuration(
        absl::ToInt64Nanoseconds(absl::Seconds(*progress.remaining_seconds)));
  }
  const auto add = [&message](const char* name, double value, const char* unit) {
    v1::ProgressValue& added = *message.add_values();
    added.set_name(name);
    added.set_value(value);
    added.set_unit(unit);
  };
  add("tokens", static_cast<double>(progress.tokens), "tokens");
  add("total_tokens", static_cast<double>(progress.total_tokens), "tokens");
  add("tokens_per_second", progress.tokens_per_second, "tokens/s");
  add("loss", progress.loss, "");
  add("l0", progress.l0, "heads");
  if (progress.fvu.has_value()) add("fvu", *progress.fvu, "");
  return message;
}

v1::WorkerOutcome ToMessage(const trainer::RunOutcome& outcome) {
  v1::WorkerOutcome message;
  message.set_kind(KindOf(outcome.kind));
  message.set_message(outcome.message);
  message.set_step(outcome.step);
  return message;
}

v1::WorkerOutcome FailedOutcome(const absl::Status& error) {
  v1::WorkerOutcome message;
  message.set_kind(v1::WorkerOutcome::KIND_FAILED);
  message.set_reason(ReasonFor(error.code()));
  message.set_message(std::string(error.message()));
  return message;
}

}  // namespace lorsa::worker

#include "server/catalog/metric_table.h"

#include <google/protobuf/util/time_util.h>

#include <limits>

#include "base/status_macros.h"

namespace lorsa::server {
namespace {

using google::protobuf::util::TimeUtil;

// The order in which PointsFromRows reads.
#define LORSA_METRIC_SELECT \
  "SELECT sequence, kind, step, attempt, tokens, time, point FROM metrics "

absl::StatusOr<std::vector<v1::MetricPoint>> PointsFromRows(Statement& row) {
  std::vector<v1::MetricPoint> points;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return points;
    v1::MetricPoint& point = points.emplace_back();
    if (!point.ParseFromString(row.Bytes(6))) {
      return absl::DataLossError("catalog: a metric point is damaged");
    }
    point.set_sequence(row.Int(0));
    point.set_kind(static_cast<v1::MetricKind>(row.Int(1)));
    point.set_step(row.Int(2));
    point.set_attempt(static_cast<int>(row.Int(3)));
    point.set_tokens(row.Int(4));
    *point.mutable_time() = TimeUtil::NanosecondsToTimestamp(row.Int(5));
  }
}

absl::Status StorePoint(Connection& connection, const StoredJob& job,
                        const v1::MetricPoint& point) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      connection.Prepare("INSERT OR REPLACE INTO metrics (job, kind, step, attempt, tokens, time,"
                         " point) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"));
  v1::MetricPoint values;
  *values.mutable_values() = point.values();
  return statement.Bind(job.number)
      .Bind(static_cast<int64_t>(point.kind()))
      .Bind(static_cast<int64_t>(point.step()))
      .Bind(static_cast<int64_t>(job.record.job.attempt()))
      .Bind(static_cast<int64_t>(point.tokens()))
      .Bind(static_cast<int64_t>(TimeUtil::TimestampToNanoseconds(point.time())))
      .BindBlob(values.SerializeAsString())
      .Run();
}

// True if the number was above the last one, which it now is.
absl::StatusOr<bool> AdvanceBatch(Connection& connection, const StoredJob& job,
                                  int64_t batch_number) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         connection.Prepare("UPDATE attempts SET last_batch = ?3 WHERE job = ?1 AND"
                                            " attempt = ?2 AND last_batch < ?3"));
  LORSA_RETURN_IF_ERROR(statement.Bind(job.number)
                            .Bind(static_cast<int64_t>(job.record.job.attempt()))
                            .Bind(batch_number)
                            .Run());
  return connection.changes() == 1;
}

}  // namespace

absl::Status StoreMetrics(Connection& connection, const StoredJob& job, int64_t batch_number,
                          const std::vector<v1::MetricPoint>& points) {
  LORSA_ASSIGN_OR_RETURN(const bool is_new, AdvanceBatch(connection, job, batch_number));
  if (!is_new) return absl::OkStatus();
  for (const v1::MetricPoint& point : points) {
    LORSA_RETURN_IF_ERROR(StorePoint(connection, job, point));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::MetricPoint>> ReadMetricsAfter(Connection& connection, int64_t job,
                                                              int64_t after_sequence,
                                                              v1::MetricKind kind, int limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      connection.Prepare(LORSA_METRIC_SELECT "WHERE job = ?1 AND sequence > ?2 AND (?3 = 0 OR"
                                             " kind = ?3) ORDER BY sequence LIMIT ?4"));
  statement.Bind(job).Bind(after_sequence).Bind(static_cast<int64_t>(kind));
  return PointsFromRows(statement.Bind(static_cast<int64_t>(limit)));
}

absl::StatusOr<std::vector<v1::MetricPoint>> ReadMetricRange(Connection& connection, int64_t job,
                                                             const MetricRange& range) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      connection.Prepare(LORSA_METRIC_SELECT "WHERE job = ?1 AND kind = ?2 AND step >= ?3 AND"
                                             " step < ?4 ORDER BY step LIMIT ?5"));
  statement.Bind(job)
      .Bind(static_cast<int64_t>(range.kind))
      .Bind(range.start_step)
      .Bind(range.end_step == 0 ? std::numeric_limits<int64_t>::max() : range.end_step);
  return PointsFromRows(statement.Bind(static_cast<int64_t>(range.limit)));
}

}  // namespace lorsa::server

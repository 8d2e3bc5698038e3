#include "server/catalog/metric_table.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

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

absl::Status StorePoint(WriteTransaction& transaction, const StoredJob& job,
                        const v1::MetricPoint& point) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("INSERT OR REPLACE INTO metrics (job, kind, step, attempt, tokens, time,"
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
absl::StatusOr<bool> AdvanceBatch(WriteTransaction& transaction, const StoredJob& job,
                                  int64_t batch_number) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("UPDATE attempts SET last_batch = ?3 WHERE job = ?1 AND"
                          " attempt = ?2 AND last_batch < ?3"));
  LORSA_RETURN_IF_ERROR(statement.Bind(job.number)
                            .Bind(static_cast<int64_t>(job.record.job.attempt()))
                            .Bind(batch_number)
                            .Run());
  return transaction.changes() == 1;
}

absl::StatusOr<std::vector<v1::MetricPoint>> ReadKindAfter(ReadTransaction& transaction,
                                                           int64_t job, v1::MetricKind kind,
                                                           int64_t after_sequence,
                                                           int64_t every_steps, int limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_METRIC_SELECT "INDEXED BY metrics_in_order WHERE job = ?1 AND"
                                              " kind = ?2 AND sequence > ?3 AND step % ?4 = 0"
                                              " ORDER BY sequence LIMIT ?5"));
  statement.Bind(job).Bind(static_cast<int64_t>(kind)).Bind(after_sequence).Bind(every_steps);
  return PointsFromRows(statement.Bind(static_cast<int64_t>(limit)));
}

int64_t EndOf(const MetricRange& range) {
  return range.end_step == 0 ? std::numeric_limits<int64_t>::max() : range.end_step;
}

// The first `limit` points of the range from `first_step` on.
absl::StatusOr<std::vector<v1::MetricPoint>> ReadFrom(ReadTransaction& transaction, int64_t job,
                                                      const MetricRange& range, int64_t first_step,
                                                      int limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_METRIC_SELECT "WHERE job = ?1 AND kind = ?2 AND step >= ?3 AND"
                                              " step < ?4 ORDER BY step LIMIT ?5"));
  statement.Bind(job).Bind(static_cast<int64_t>(range.kind)).Bind(first_step).Bind(EndOf(range));
  return PointsFromRows(statement.Bind(static_cast<int64_t>(limit)));
}

struct Steps {
  int64_t first = 0;
  int64_t last = 0;
};

// Of the range's points; nothing if it has none.
absl::StatusOr<std::optional<Steps>> FirstAndLast(ReadTransaction& transaction, int64_t job,
                                                  const MetricRange& range) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("SELECT (SELECT MIN(step) FROM metrics WHERE job = ?1 AND kind = ?2 AND"
                          " step >= ?3 AND step < ?4), (SELECT MAX(step) FROM metrics WHERE job ="
                          " ?1 AND kind = ?2 AND step >= ?3 AND step < ?4)"));
  statement.Bind(job).Bind(static_cast<int64_t>(range.kind)).Bind(range.start_step);
  LORSA_RETURN_IF_ERROR(statement.Bind(EndOf(range)).Step().status());
  if (statement.IsNull(0)) return std::nullopt;
  return Steps{.first = statement.Int(0), .last = statement.Int(1)};
}

// A search of the index for each point: the cost does not grow with the range.
absl::StatusOr<std::vector<v1::MetricPoint>> ReadThinned(ReadTransaction& transaction, int64_t job,
                                                         const MetricRange& range) {
  LORSA_ASSIGN_OR_RETURN(const std::optional<Steps> steps, FirstAndLast(transaction, job, range));
  std::vector<v1::MetricPoint> thinned;
  if (!steps.has_value()) return thinned;
  const double stretch =
      static_cast<double>(steps->last - steps->first) / std::max(range.limit - 1, 1);
  for (int i = 0; i < range.limit; ++i) {
    const auto from = i + 1 == range.limit
                          ? steps->last
                          : steps->first + static_cast<int64_t>(std::llround(i * stretch));
    if (!thinned.empty() && from <= thinned.back().step()) continue;  // Sparse: it had this one.
    LORSA_ASSIGN_OR_RETURN(std::vector<v1::MetricPoint> point,
                           ReadFrom(transaction, job, range, from, 1));
    if (!point.empty()) thinned.push_back(std::move(point.front()));
  }
  return thinned;
}

}  // namespace

absl::Status StoreMetrics(WriteTransaction& transaction, const StoredJob& job, int64_t batch_number,
                          const std::vector<v1::MetricPoint>& points) {
  LORSA_ASSIGN_OR_RETURN(const bool is_new, AdvanceBatch(transaction, job, batch_number));
  if (!is_new) return absl::OkStatus();
  for (const v1::MetricPoint& point : points) {
    LORSA_RETURN_IF_ERROR(StorePoint(transaction, job, point));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::MetricPoint>> ReadMetricsAfter(ReadTransaction& transaction,
                                                              int64_t job, int64_t after_sequence,
                                                              const MetricFilter& filter,
                                                              int limit) {
  std::vector<v1::MetricPoint> points;
  for (const v1::MetricKind kind : {v1::METRIC_KIND_TRAINING, v1::METRIC_KIND_EVALUATION}) {
    if (filter.kind != v1::METRIC_KIND_UNSPECIFIED && filter.kind != kind) continue;
    const int64_t every = kind == v1::METRIC_KIND_TRAINING ? filter.every_steps : 1;
    LORSA_ASSIGN_OR_RETURN(std::vector<v1::MetricPoint> more,
                           ReadKindAfter(transaction, job, kind, after_sequence, every, limit));
    std::move(more.begin(), more.end(), std::back_inserter(points));
  }
  std::sort(points.begin(), points.end(),
            [](const auto& a, const auto& b) { return a.sequence() < b.sequence(); });
  if (points.size() > static_cast<size_t>(limit)) points.resize(limit);
  return points;
}

absl::StatusOr<std::optional<v1::MetricPoint>> ReadLastMetric(ReadTransaction& transaction,
                                                              int64_t job, v1::MetricKind kind) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_METRIC_SELECT
                          "WHERE job = ?1 AND kind = ?2 ORDER BY step DESC LIMIT 1"));
  statement.Bind(job).Bind(static_cast<int64_t>(kind));
  LORSA_ASSIGN_OR_RETURN(std::vector<v1::MetricPoint> points, PointsFromRows(statement));
  if (points.empty()) return std::nullopt;
  return std::move(points.front());
}

absl::StatusOr<std::vector<v1::MetricPoint>> ReadMetricRange(ReadTransaction& transaction,
                                                             int64_t job,
                                                             const MetricRange& range) {
  return range.thinned ? ReadThinned(transaction, job, range)
                       : ReadFrom(transaction, job, range, range.start_step, range.limit);
}

}  // namespace lorsa::server

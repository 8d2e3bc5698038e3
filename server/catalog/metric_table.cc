#include "server/catalog/metric_table.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"

namespace lorsa::server {
namespace {

using google::protobuf::util::TimeUtil;

// The order in which PointsFromRows reads.
#define LORSA_METRIC_SELECT \
  "SELECT sequence, kind, step, attempt, tokens, time, point FROM metrics "

void KeepNamed(const std::vector<std::string>& names, v1::MetricPoint& point) {
  if (names.empty()) return;
  google::protobuf::Map<std::string, double> kept;
  for (const std::string& name : names) {
    const auto found = point.values().find(name);
    if (found != point.values().end()) kept[name] = found->second;
  }
  point.mutable_values()->swap(kept);
}

// With the values of these names; with all if there are none.
absl::StatusOr<v1::MetricPoint> PointFromRow(const Statement& row,
                                             const std::vector<std::string>& names) {
  v1::MetricPoint point;
  if (!point.ParseFromString(row.Bytes(6))) {
    return absl::DataLossError("catalog: a metric point is damaged");
  }
  KeepNamed(names, point);
  point.set_sequence(row.Int(0));
  point.set_kind(static_cast<v1::MetricKind>(row.Int(1)));
  point.set_step(row.Int(2));
  point.set_attempt(static_cast<int>(row.Int(3)));
  point.set_tokens(row.Int(4));
  *point.mutable_time() = TimeUtil::NanosecondsToTimestamp(row.Int(5));
  return point;
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

// Appends to `points`.
absl::Status ReadKindAfter(ReadTransaction& transaction, int64_t job, v1::MetricKind kind,
                           int64_t after_sequence, const MetricFilter& filter, int limit,
                           std::vector<v1::MetricPoint>& points) {
  LORSA_ASSIGN_OR_RETURN(
      Statement row,
      transaction.Prepare(LORSA_METRIC_SELECT "INDEXED BY metrics_in_order WHERE job = ?1 AND"
                                              " kind = ?2 AND sequence > ?3 AND step % ?4 = 0"
                                              " ORDER BY sequence LIMIT ?5"));
  row.Bind(job)
      .Bind(static_cast<int64_t>(kind))
      .Bind(after_sequence)
      .Bind(kind == v1::METRIC_KIND_TRAINING ? filter.every_steps : 1)
      .Bind(static_cast<int64_t>(limit));
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return absl::OkStatus();
    LORSA_ASSIGN_OR_RETURN(v1::MetricPoint point, PointFromRow(row, filter.names));
    points.push_back(std::move(point));
  }
}

int64_t EndOf(const MetricRange& range) {
  return range.end_step == 0 ? std::numeric_limits<int64_t>::max() : range.end_step;
}

// Rows of the range from `first_step` on.
absl::StatusOr<Statement> RowsFrom(ReadTransaction& transaction, int64_t job,
                                   const MetricRange& range, int64_t first_step, int64_t limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement row,
      transaction.Prepare(LORSA_METRIC_SELECT "WHERE job = ?1 AND kind = ?2 AND step >= ?3 AND"
                                              " step < ?4 ORDER BY step LIMIT ?5"));
  row.Bind(job).Bind(static_cast<int64_t>(range.kind)).Bind(first_step).Bind(EndOf(range));
  row.Bind(limit);
  return row;
}

// The first points of the range, as many as its bounds allow.
absl::StatusOr<MetricsInRange> ReadPage(ReadTransaction& transaction, int64_t job,
                                        const MetricRange& range) {
  // One more row than the page shows where the next begins.
  LORSA_ASSIGN_OR_RETURN(Statement row, RowsFrom(transaction, job, range, range.start_step,
                                                 static_cast<int64_t>(range.limit) + 1));
  MetricsInRange page;
  size_t bytes = 0;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return page;
    LORSA_ASSIGN_OR_RETURN(v1::MetricPoint point, PointFromRow(row, range.names));
    bytes += point.ByteSizeLong();
    const bool fits = bytes <= range.max_bytes || page.points.empty();
    if (!fits || page.points.size() == static_cast<size_t>(range.limit)) {
      page.next_step = point.step();
      return page;
    }
    page.points.push_back(std::move(point));
  }
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

// At most `limit` points, or nothing if they are larger than the range's bound. A search of the
// index for each point: the cost does not grow with the range.
absl::StatusOr<std::optional<std::vector<v1::MetricPoint>>> ReadSpread(ReadTransaction& transaction,
                                                                       int64_t job,
                                                                       const MetricRange& range,
                                                                       Steps steps, int limit) {
  std::vector<v1::MetricPoint> points;
  size_t bytes = 0;
  const double stretch = static_cast<double>(steps.last - steps.first) / std::max(limit - 1, 1);
  for (int i = 0; i < limit; ++i) {
    const auto from =
        i + 1 == limit ? steps.last : steps.first + static_cast<int64_t>(std::llround(i * stretch));
    if (!points.empty() && from <= points.back().step()) continue;  // Sparse: it had this one.
    LORSA_ASSIGN_OR_RETURN(Statement row, RowsFrom(transaction, job, range, from, 1));
    LORSA_ASSIGN_OR_RETURN(const bool found, row.Step());
    if (!found) continue;
    LORSA_ASSIGN_OR_RETURN(v1::MetricPoint point, PointFromRow(row, range.names));
    bytes += point.ByteSizeLong();
    if (bytes > range.max_bytes && limit > 2) return std::nullopt;
    points.push_back(std::move(point));
  }
  return points;
}

absl::StatusOr<MetricsInRange> ReadThinned(ReadTransaction& transaction, int64_t job,
                                           const MetricRange& range) {
  LORSA_ASSIGN_OR_RETURN(const std::optional<Steps> steps, FirstAndLast(transaction, job, range));
  if (!steps.has_value()) return MetricsInRange{};
  for (int limit = range.limit;; limit = std::max(limit / 2, 2)) {
    LORSA_ASSIGN_OR_RETURN(std::optional<std::vector<v1::MetricPoint>> points,
                           ReadSpread(transaction, job, range, *steps, limit));
    if (points.has_value()) return MetricsInRange{.points = *std::move(points)};
  }
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
    LORSA_RETURN_IF_ERROR(
        ReadKindAfter(transaction, job, kind, after_sequence, filter, limit, points));
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
  LORSA_ASSIGN_OR_RETURN(const bool found,
                         statement.Bind(job).Bind(static_cast<int64_t>(kind)).Step());
  if (!found) return std::nullopt;
  LORSA_ASSIGN_OR_RETURN(v1::MetricPoint point, PointFromRow(statement, /*names=*/{}));
  return point;
}

absl::StatusOr<MetricsInRange> ReadMetricRange(ReadTransaction& transaction, int64_t job,
                                               const MetricRange& range) {
  return range.thinned ? ReadThinned(transaction, job, range) : ReadPage(transaction, job, range);
}

}  // namespace lorsa::server

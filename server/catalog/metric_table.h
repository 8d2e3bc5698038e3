// Rows of metrics. Runs inside a transaction or read that the caller has opened.
#ifndef LORSA_SERVER_CATALOG_METRIC_TABLE_H_
#define LORSA_SERVER_CATALOG_METRIC_TABLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/catalog/catalog.h"
#include "server/catalog/job_table.h"
#include "server/catalog/transaction.h"

namespace lorsa::server {

// Stores the batch of the job's current attempt, unless one with this number or a later one was.
absl::Status StoreMetrics(WriteTransaction& transaction, const StoredJob& job, int64_t batch_number,
                          const std::vector<v1::MetricPoint>& points);

absl::StatusOr<std::vector<v1::MetricPoint>> ReadMetricsAfter(ReadTransaction& transaction,
                                                              int64_t job, int64_t after_sequence,
                                                              const MetricFilter& filter,
                                                              int limit);

// Of the highest step; nothing if there is none of that kind.
absl::StatusOr<std::optional<v1::MetricPoint>> ReadLastMetric(ReadTransaction& transaction,
                                                              int64_t job, v1::MetricKind kind);

absl::StatusOr<MetricsInRange> ReadMetricRange(ReadTransaction& transaction, int64_t job,
                                               const MetricRange& range);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_METRIC_TABLE_H_

#include "server/catalog/notice_table.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/catalog/metric_table.h"

namespace lorsa::server {
namespace {

// HOST or HOST:PORT, as the URL spells it.
std::string ReceiverOf(absl::string_view url) {
  if (const size_t scheme = url.find("://"); scheme != url.npos) url.remove_prefix(scheme + 3);
  return absl::AsciiStrToLower(url.substr(0, url.find_first_of("/?#")));
}

}  // namespace

absl::Status StoreNotice(WriteTransaction& transaction, const StoredJob& job, absl::Time now) {
  const std::string& url = job.record.job.policy().webhook();
  if (url.empty()) return absl::OkStatus();
  v1::JobEndedNotice notice;
  // The time tells it from that of a job of the same name before, and of a catalog restored since.
  notice.set_id(
      absl::StrCat(job.record.id, ":", job.record.job.revision(), ":", absl::ToUnixNanos(now)));
  *notice.mutable_job() = job.record.job;
  LORSA_ASSIGN_OR_RETURN(std::optional<v1::MetricPoint> evaluation,
                         ReadLastMetric(transaction, job.number, v1::METRIC_KIND_EVALUATION));
  if (evaluation.has_value()) *notice.mutable_evaluation() = *std::move(evaluation);
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("INSERT INTO notices (url, notice, create_time,"
                                             " next_time, job, receiver)"
                                             " VALUES (?1, ?2, ?3, ?3, ?4, ?5)"));
  return statement.Bind(url)
      .BindBlob(notice.SerializeAsString())
      .Bind(absl::ToUnixNanos(now))
      .Bind(job.record.id)
      .Bind(ReceiverOf(url))
      .Run();
}

absl::StatusOr<std::vector<PendingNotice>> ReadDueNotices(ReadTransaction& transaction,
                                                          absl::Time now, const DueLimits& limits) {
  LORSA_ASSIGN_OR_RETURN(
      Statement row,
      transaction.Prepare(
          "SELECT number, url, notice, create_time, tries, receiver FROM notices JOIN"
          " (SELECT number AS due, ROW_NUMBER() OVER"
          "    (PARTITION BY receiver ORDER BY next_time, number) AS place FROM notices AS one"
          "  WHERE (next_time <= ?1 OR next_time > ?2) AND NOT EXISTS"
          "    (SELECT 1 FROM notices WHERE job = one.job AND number < one.number))"
          " ON number = due WHERE place <= ?3 ORDER BY next_time, number"));
  row.Bind(absl::ToUnixNanos(now))
      .Bind(absl::ToUnixNanos(now + limits.longest_pause))
      .Bind(int64_t{limits.per_receiver});
  std::vector<PendingNotice> notices;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return notices;
    PendingNotice& notice = notices.emplace_back();
    notice.number = row.Int(0);
    notice.url = row.Bytes(1);
    if (!notice.notice.ParseFromString(row.Bytes(2))) {
      return absl::DataLossError(
          "catalog: a notice for a webhook is damaged; restore the catalog from a backup");
    }
    notice.create_time = absl::FromUnixNanos(row.Int(3));
    notice.tries = static_cast<int>(row.Int(4));
    notice.receiver = row.Bytes(5);
  }
}

absl::Status PostponeNotice(WriteTransaction& transaction, int64_t number, absl::Time next_time) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(
          "UPDATE notices SET tries = tries + 1, next_time = ?2 WHERE number = ?1"));
  return statement.Bind(number).Bind(absl::ToUnixNanos(next_time)).Run();
}

absl::Status RemoveNotice(WriteTransaction& transaction, int64_t number) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("DELETE FROM notices WHERE number = ?1"));
  return statement.Bind(number).Run();
}

}  // namespace lorsa::server

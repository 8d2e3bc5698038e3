#include "server/catalog/sweep_table.h"

#include <google/protobuf/util/time_util.h>

#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/catalog/job_table.h"
#include "server/model/job_state.h"

namespace lorsa::server {
namespace {

using google::protobuf::util::TimeUtil;

#define LORSA_SWEEP_SELECT "SELECT number, id, create_time, sweep FROM sweeps "

absl::Status NoSuchSweep(absl::string_view id) {
  return absl::NotFoundError(
      absl::StrCat("there is no sweep ", id, "; list the sweeps to see all"));
}

absl::Status CountJobs(ReadTransaction& transaction, int64_t number, v1::Sweep& sweep) {
  LORSA_ASSIGN_OR_RETURN(
      Statement row,
      transaction.Prepare("SELECT state, COUNT(*) FROM jobs WHERE sweep = ?1 AND deleted = 0"
                          " GROUP BY state"));
  row.Bind(number);
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return absl::OkStatus();
    const auto count = static_cast<int>(row.Int(1));
    const std::string state(JobStateName(static_cast<v1::JobState>(row.Int(0))));
    (*sweep.mutable_jobs_by_state())[state] = count;
    sweep.set_jobs(sweep.jobs() + count);
  }
}

absl::Status FindBest(ReadTransaction& transaction, int64_t number, v1::Sweep& sweep) {
  LORSA_ASSIGN_OR_RETURN(
      Statement row, transaction.Prepare("SELECT id, fvu FROM jobs JOIN checkpoints ON job = number"
                                         " WHERE sweep = ?1 AND deleted = 0 AND fvu IS NOT NULL"
                                         " AND damage = ''"
                                         " ORDER BY fvu, number LIMIT 1"));
  LORSA_ASSIGN_OR_RETURN(const bool found, row.Bind(number).Step());
  if (!found) return absl::OkStatus();
  sweep.set_best_job(absl::StrCat("jobs/", row.Bytes(0)));
  sweep.set_best_fvu(row.Double(1));
  return absl::OkStatus();
}

absl::StatusOr<v1::Sweep> SweepFromRow(ReadTransaction& transaction, const Statement& row) {
  v1::Sweep sweep;
  if (!sweep.ParseFromString(row.Bytes(3))) {
    return absl::DataLossError(absl::StrCat("catalog: the sweep ", row.Bytes(1),
                                            " is damaged; restore the catalog from a backup"));
  }
  sweep.set_name(absl::StrCat("sweeps/", row.Bytes(1)));
  *sweep.mutable_create_time() = TimeUtil::NanosecondsToTimestamp(row.Int(2));
  LORSA_RETURN_IF_ERROR(CountJobs(transaction, row.Int(0), sweep));
  LORSA_RETURN_IF_ERROR(FindBest(transaction, row.Int(0), sweep));
  return sweep;
}

absl::StatusOr<bool> IsTaken(ReadTransaction& transaction, absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(Statement row,
                         transaction.Prepare("SELECT number FROM sweeps WHERE id = ?1"));
  return row.Bind(id).Step();
}

absl::StatusOr<int64_t> InsertSweepRow(WriteTransaction& transaction, const NewSweep& sweep,
                                       absl::Time now) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("INSERT INTO sweeps (id, request_id, request_sha256, create_time, sweep)"
                          " VALUES (?1, ?2, ?3, ?4, ?5)"));
  LORSA_RETURN_IF_ERROR(statement.Bind(sweep.id)
                            .Bind(sweep.request.id)
                            .Bind(sweep.request.sha256)
                            .Bind(absl::ToUnixNanos(now))
                            .BindBlob(sweep.sweep.SerializeAsString())
                            .Run());
  return transaction.last_insert_rowid();
}

}  // namespace

absl::StatusOr<std::optional<v1::Sweep>> FindRepeatedSweep(ReadTransaction& transaction,
                                                           absl::string_view id,
                                                           const RequestIdentity& request) {
  if (request.id.empty()) return std::nullopt;
  LORSA_ASSIGN_OR_RETURN(
      Statement row,
      transaction.Prepare(LORSA_SWEEP_SELECT
                          "WHERE id = ?1 AND request_id = ?2 AND request_sha256 = ?3"));
  LORSA_ASSIGN_OR_RETURN(const bool found,
                         row.Bind(id).Bind(request.id).Bind(request.sha256).Step());
  if (!found) return std::nullopt;
  LORSA_ASSIGN_OR_RETURN(v1::Sweep sweep, SweepFromRow(transaction, row));
  return sweep;
}

absl::StatusOr<v1::Sweep> InsertSweep(WriteTransaction& transaction, const NewSweep& sweep,
                                      absl::Time now) {
  LORSA_ASSIGN_OR_RETURN(std::optional<v1::Sweep> repeated,
                         FindRepeatedSweep(transaction, sweep.id, sweep.request));
  if (repeated.has_value()) return *std::move(repeated);
  LORSA_ASSIGN_OR_RETURN(const bool taken, IsTaken(transaction, sweep.id));
  if (taken) {
    return absl::AlreadyExistsError(
        absl::StrCat("there is a sweep ", sweep.id, " already; choose another id"));
  }
  LORSA_ASSIGN_OR_RETURN(const int64_t number, InsertSweepRow(transaction, sweep, now));
  for (const NewJob& job : sweep.jobs) {
    LORSA_RETURN_IF_ERROR(InsertJob(transaction, job, now, number).status());
  }
  return ReadSweep(transaction, sweep.id);
}

absl::StatusOr<v1::Sweep> ReadSweep(ReadTransaction& transaction, absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(Statement row, transaction.Prepare(LORSA_SWEEP_SELECT "WHERE id = ?1"));
  LORSA_ASSIGN_OR_RETURN(const bool found, row.Bind(id).Step());
  if (!found) return NoSuchSweep(id);
  return SweepFromRow(transaction, row);
}

absl::StatusOr<std::vector<StoredSweep>> ReadSweeps(ReadTransaction& transaction, int64_t before,
                                                    int limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement row,
      transaction.Prepare(LORSA_SWEEP_SELECT "WHERE number < ?1 ORDER BY number DESC LIMIT ?2"));
  row.Bind(before == 0 ? std::numeric_limits<int64_t>::max() : before)
      .Bind(static_cast<int64_t>(limit));
  std::vector<StoredSweep> sweeps;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool more, row.Step());
    if (!more) return sweeps;
    LORSA_ASSIGN_OR_RETURN(v1::Sweep sweep, SweepFromRow(transaction, row));
    sweeps.push_back({.number = row.Int(0), .sweep = std::move(sweep)});
  }
}

}  // namespace lorsa::server

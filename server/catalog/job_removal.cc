#include "server/catalog/job_removal.h"

#include <cstdint>
#include <optional>

#include "base/status_macros.h"

namespace lorsa::server {
namespace {

// A transaction of so many rows takes some tens of milliseconds.
constexpr int64_t kRowsAtOnce = 5000;

// Those that refer to a job, the long tables first.
constexpr const char* kRemoveSome[] = {
    "DELETE FROM metrics WHERE sequence IN"
    " (SELECT sequence FROM metrics WHERE job = ?1 LIMIT ?2)",
    "DELETE FROM events WHERE job = ?1 AND revision IN"
    " (SELECT revision FROM events WHERE job = ?1 LIMIT ?2)",
    "DELETE FROM attempts WHERE job = ?1 AND attempt IN"
    " (SELECT attempt FROM attempts WHERE job = ?1 LIMIT ?2)",
    "DELETE FROM checkpoints WHERE job = ?1 AND step IN"
    " (SELECT step FROM checkpoints WHERE job = ?1 LIMIT ?2)",
    "DELETE FROM removed_checkpoints WHERE job = ?1 AND step IN"
    " (SELECT step FROM removed_checkpoints WHERE job = ?1 LIMIT ?2)",
    "DELETE FROM job_labels WHERE job = ?1 AND key IN"
    " (SELECT key FROM job_labels WHERE job = ?1 LIMIT ?2)",
};

absl::Status Run(WriteTransaction& transaction, absl::string_view sql, int64_t number) {
  LORSA_ASSIGN_OR_RETURN(Statement statement, transaction.Prepare(sql));
  return statement.Bind(number).Run();
}

struct DeletedJob {
  int64_t number = 0;
  int64_t sweep = 0;  // 0 = none
};

// Nothing if no job of that id is on its way out.
absl::StatusOr<std::optional<DeletedJob>> Find(ReadTransaction& transaction, absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("SELECT number, sweep FROM jobs WHERE id = ?1 AND deleted = 1"));
  LORSA_ASSIGN_OR_RETURN(const bool row, statement.Bind(id).Step());
  if (!row) return std::nullopt;
  return DeletedJob{.number = statement.Int(0), .sweep = statement.Int(1)};
}

}  // namespace

absl::StatusOr<bool> RemoveSomeRows(WriteTransaction& transaction, absl::string_view id) {
  LORSA_ASSIGN_OR_RETURN(const std::optional<DeletedJob> job, Find(transaction, id));
  if (!job.has_value()) return true;
  for (const char* sql : kRemoveSome) {
    LORSA_ASSIGN_OR_RETURN(Statement statement, transaction.Prepare(sql));
    LORSA_RETURN_IF_ERROR(statement.Bind(job->number).Bind(kRowsAtOnce).Run());
    if (transaction.changes() > 0) return false;
  }
  LORSA_RETURN_IF_ERROR(Run(transaction, "DELETE FROM jobs WHERE number = ?1", job->number));
  LORSA_RETURN_IF_ERROR(Run(transaction,
                            "DELETE FROM sweeps WHERE number = ?1 AND NOT EXISTS"
                            " (SELECT 1 FROM jobs WHERE sweep = ?1)",
                            job->sweep));
  return true;
}

}  // namespace lorsa::server

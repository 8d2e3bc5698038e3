#include "server/catalog/data_folder_table.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/catalog/checkpoint_table.h"
#include "server/model/data_layout.h"
#include "server/model/job_state.h"

namespace lorsa::server {
namespace {

constexpr char kAdopted[] = "ADOPTED";

std::string Describe(const AdoptedAttempt& attempt) {
  return absl::StrCat(
      "attempt ", attempt.attempt,
      " was found in the data folder, which is newer than the catalog; the job was ",
      JobStateName(attempt.state), " in it");
}

// A token that is not known lets nobody in.
absl::Status InsertAttempt(WriteTransaction& transaction, int64_t job,
                           const AdoptedAttempt& attempt) {
  if (attempt.token_sha256.empty()) return absl::OkStatus();
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("INSERT OR IGNORE INTO attempts VALUES (?1, ?2, ?3, '', 0, 0, 0)"));
  return statement.Bind(job)
      .Bind(static_cast<int64_t>(attempt.attempt))
      .Bind(attempt.token_sha256)
      .Run();
}

// No edge of the state machine: the changes in between are those of the catalog that is gone.
absl::Status InsertStateEvent(WriteTransaction& transaction, const StoredJob& job,
                              const AdoptedAttempt& attempt, absl::Time now) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"));
  return statement.Bind(job.number)
      .Bind(job.record.job.revision() + 1)
      .Bind(absl::ToUnixNanos(now))
      .Bind(static_cast<int64_t>(attempt.attempt))
      .Bind(static_cast<int64_t>(job.record.job.state()))
      .Bind(static_cast<int64_t>(attempt.state))
      .Bind(kAdopted)
      .Bind(Describe(attempt))
      .Run();
}

}  // namespace

absl::StatusOr<int64_t> ReadGeneration(ReadTransaction& transaction) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("SELECT MAX(generation) FROM data_folder"));
  LORSA_RETURN_IF_ERROR(statement.Step().status());
  return statement.Int(0);
}

absl::Status StoreGeneration(WriteTransaction& transaction, int64_t generation) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("UPDATE data_folder SET generation = ?1"));
  return statement.Bind(generation).Run();
}

absl::Status StoreRemoved(WriteTransaction& transaction, int64_t job, int64_t step) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("INSERT OR IGNORE INTO removed_checkpoints VALUES (?1, ?2)"));
  return statement.Bind(job).Bind(step).Run();
}

absl::StatusOr<std::set<int64_t>> ReadRemoved(ReadTransaction& transaction, int64_t job) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("SELECT step FROM removed_checkpoints WHERE job = ?1"));
  statement.Bind(job);
  std::set<int64_t> steps;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return steps;
    steps.insert(statement.Int(0));
  }
}

absl::Status ForgetRemoved(WriteTransaction& transaction, int64_t job) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("DELETE FROM removed_checkpoints WHERE job = ?1"));
  return statement.Bind(job).Run();
}

absl::Status ForgetAllRemoved(WriteTransaction& transaction) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("DELETE FROM removed_checkpoints"));
  return statement.Run();
}

absl::Status StoreAdoptedCheckpoint(WriteTransaction& transaction, const StoredJob& job,
                                    const v1::Checkpoint& checkpoint, absl::Time now) {
  LORSA_RETURN_IF_ERROR(StoreCopiedCheckpoint(transaction, job, checkpoint, now));
  return ApplyChange(transaction, job,
                     {.reason = kAdopted,
                      .message = absl::StrCat("checkpoint ", CheckpointId(checkpoint.step()),
                                              " was found in the data folder, is whole, and is "
                                              "listed from now on")},
                     now);
}

absl::Status StoreAdoptedAttempt(WriteTransaction& transaction, const StoredJob& job,
                                 const AdoptedAttempt& attempt, absl::Time now) {
  LORSA_RETURN_IF_ERROR(InsertStateEvent(transaction, job, attempt, now));
  LORSA_RETURN_IF_ERROR(InsertAttempt(transaction, job.number, attempt));
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("UPDATE jobs SET attempt = ?2, state = ?3, reason = ?4, message = ?5,"
                          " start_time = COALESCE(start_time, ?6), end_time = NULL,"
                          " expire_time = NULL, not_before = NULL, revision = revision + 1"
                          " WHERE number = ?1"));
  return statement.Bind(job.number)
      .Bind(static_cast<int64_t>(attempt.attempt))
      .Bind(static_cast<int64_t>(attempt.state))
      .Bind(kAdopted)
      .Bind(Describe(attempt))
      .Bind(absl::ToUnixNanos(now))
      .Run();
}

}  // namespace lorsa::server

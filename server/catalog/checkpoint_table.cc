#include "server/catalog/checkpoint_table.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/catalog/data_folder_table.h"
#include "server/jobs/data_layout.h"
#include "server/jobs/job_state.h"

namespace lorsa::server {
namespace {

using google::protobuf::util::TimeUtil;

absl::StatusOr<v1::Checkpoint> CheckpointFromRow(const Statement& row, absl::string_view job_id) {
  v1::Checkpoint checkpoint;
  if (!checkpoint.ParseFromString(row.Bytes(4))) {
    return absl::DataLossError(absl::StrCat("catalog: a checkpoint of job ", job_id,
                                            " is damaged; restore the catalog from a backup"));
  }
  checkpoint.set_step(row.Int(0));
  checkpoint.set_name(
      absl::StrCat("jobs/", job_id, "/checkpoints/", CheckpointId(checkpoint.step())));
  checkpoint.set_attempt(static_cast<int>(row.Int(1)));
  checkpoint.set_tokens(row.Int(2));
  *checkpoint.mutable_create_time() = TimeUtil::NanosecondsToTimestamp(row.Int(3));
  if (!row.IsNull(5)) checkpoint.set_fvu(row.Double(5));
  checkpoint.set_scheduled(row.Int(6) != 0);
  checkpoint.set_pinned(row.Int(7) != 0);
  checkpoint.set_damage(row.Bytes(8));
  *checkpoint.mutable_verify_time() =
      TimeUtil::NanosecondsToTimestamp(row.IsNull(9) ? row.Int(3) : row.Int(9));
  return checkpoint;
}

// As the column `files` has them.
std::string FilesBlob(const v1::Checkpoint& checkpoint) {
  v1::Checkpoint files;
  *files.mutable_files() = checkpoint.files();
  return files.SerializeAsString();
}

// The lowest FVU; of equal ones the later step, as in job_table.cc. A damaged one is nobody's best.
void MarkBest(std::vector<v1::Checkpoint>& checkpoints) {
  v1::Checkpoint* best = nullptr;
  for (v1::Checkpoint& checkpoint : checkpoints) {
    if (!checkpoint.has_fvu() || !checkpoint.damage().empty()) continue;
    if (best == nullptr || checkpoint.fvu() <= best->fvu()) best = &checkpoint;
  }
  if (best != nullptr) best->set_best(true);
}

// A pin outlives the replacement of its checkpoint.
absl::Status StoreRow(WriteTransaction& transaction, const StoredJob& job,
                      const v1::Checkpoint& checkpoint, bool scheduled, absl::Time now) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(
          "INSERT INTO checkpoints"
          " (job, step, attempt, tokens, create_time, files, scheduled, fvu, pinned)"
          " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0) ON CONFLICT (job, step) DO UPDATE SET"
          " attempt = ?3, tokens = ?4, create_time = ?5, files = ?6, scheduled = ?7, fvu = ?8,"
          " damage = '', verify_time = NULL"));
  statement.Bind(job.number)
      .Bind(static_cast<int64_t>(checkpoint.step()))
      .Bind(static_cast<int64_t>(job.record.job.attempt()))
      .Bind(static_cast<int64_t>(checkpoint.tokens()))
      .Bind(absl::ToUnixNanos(now))
      .BindBlob(FilesBlob(checkpoint))
      .Bind(static_cast<int64_t>(scheduled));
  if (checkpoint.has_fvu()) {
    statement.Bind(checkpoint.fvu());
  } else {
    statement.BindNull();
  }
  return statement.Run();
}

absl::StatusOr<bool> IsNewestStep(ReadTransaction& transaction, const StoredJob& job,
                                  int64_t step) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("SELECT COUNT(*) FROM checkpoints WHERE job = ?1 AND step >= ?2"));
  LORSA_RETURN_IF_ERROR(statement.Bind(job.number).Bind(step).Step().status());
  return statement.Int(0) == 0;
}

// The checkpoints that rows of (job's id, step) name.
absl::StatusOr<std::vector<v1::Checkpoint>> CheckpointsNamedBy(ReadTransaction& transaction,
                                                               Statement& rows) {
  std::vector<v1::Checkpoint> named;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool row, rows.Step());
    if (!row) return named;
    LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> all,
                           ReadCheckpoints(transaction, rows.Bytes(0)));
    std::copy_if(all.begin(), all.end(), std::back_inserter(named),
                 [&](const v1::Checkpoint& c) { return c.step() == rows.Int(1); });
  }
}

absl::StatusOr<bool> IsPinned(ReadTransaction& transaction, int64_t job, int64_t step) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(
          "SELECT COUNT(*) FROM checkpoints WHERE job = ?1 AND step = ?2 AND pinned = 1"));
  LORSA_RETURN_IF_ERROR(statement.Bind(job).Bind(step).Step().status());
  return statement.Int(0) > 0;
}

}  // namespace

absl::Status StoreCheckpoint(WriteTransaction& transaction, const StoredJob& job,
                             const v1::Checkpoint& checkpoint, bool scheduled, absl::Time now) {
  LORSA_ASSIGN_OR_RETURN(const bool newest, IsNewestStep(transaction, job, checkpoint.step()));
  LORSA_RETURN_IF_ERROR(StoreRow(transaction, job, checkpoint, scheduled, now));
  JobChange change;
  change.reason = "CHECKPOINT";
  change.message = absl::StrCat("checkpoint ", CheckpointId(checkpoint.step()), " is published");
  if (checkpoint.has_fvu()) absl::StrAppend(&change.message, ", FVU ", checkpoint.fvu());
  if (scheduled && newest) change.recoveries = 0;
  return ApplyChange(transaction, job, change, now);
}

absl::Status StoreCopiedCheckpoint(WriteTransaction& transaction, const StoredJob& job,
                                   const v1::Checkpoint& checkpoint, absl::Time now) {
  return StoreRow(transaction, job, checkpoint, /*scheduled=*/true, now);
}

// No edge of the state machine: nothing ran.
absl::Status StoreImportedCheckpoint(WriteTransaction& transaction, const StoredJob& job,
                                     const v1::Checkpoint& checkpoint, absl::Time now) {
  LORSA_RETURN_IF_ERROR(StoreCopiedCheckpoint(transaction, job, checkpoint, now));
  const std::string message =
      absl::StrCat("checkpoint ", CheckpointId(checkpoint.step()), " was imported");
  {
    LORSA_ASSIGN_OR_RETURN(
        Statement event,
        transaction.Prepare("INSERT INTO events VALUES (?1, ?2, ?3, 0, ?4, ?5, 'IMPORTED', ?6)"));
    LORSA_RETURN_IF_ERROR(event.Bind(job.number)
                              .Bind(job.record.job.revision() + 1)
                              .Bind(absl::ToUnixNanos(now))
                              .Bind(static_cast<int64_t>(v1::JOB_STATE_QUEUED))
                              .Bind(static_cast<int64_t>(v1::JOB_STATE_SUCCEEDED))
                              .Bind(message)
                              .Run());
  }
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("UPDATE jobs SET state = ?2, reason = 'IMPORTED', message = ?3,"
                          " end_time = ?4, revision = revision + 1 WHERE number = ?1"));
  return statement.Bind(job.number)
      .Bind(static_cast<int64_t>(v1::JOB_STATE_SUCCEEDED))
      .Bind(message)
      .Bind(absl::ToUnixNanos(now))
      .Run();
}

absl::StatusOr<std::vector<v1::Checkpoint>> ReadCheckpoints(ReadTransaction& transaction,
                                                            absl::string_view job_id) {
  LORSA_ASSIGN_OR_RETURN(const int64_t job, JobNumber(transaction, job_id));
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(
          "SELECT step, attempt, tokens, create_time, files, fvu, scheduled, pinned,"
          " damage, verify_time FROM checkpoints WHERE job = ?1 ORDER BY step"));
  statement.Bind(job);
  std::vector<v1::Checkpoint> checkpoints;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) break;
    LORSA_ASSIGN_OR_RETURN(v1::Checkpoint checkpoint, CheckpointFromRow(statement, job_id));
    checkpoints.push_back(std::move(checkpoint));
  }
  MarkBest(checkpoints);
  return checkpoints;
}

absl::Status StorePin(WriteTransaction& transaction, int64_t job, int64_t step, bool pinned) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("UPDATE checkpoints SET pinned = ?3 WHERE job = ?1 AND step = ?2"));
  return statement.Bind(job).Bind(step).Bind(static_cast<int64_t>(pinned)).Run();
}

absl::Status StoreVerdict(WriteTransaction& transaction, int64_t job,
                          const v1::Checkpoint& checkpoint, absl::string_view damage,
                          absl::Time now) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("UPDATE checkpoints SET damage = ?4, verify_time = ?5"
                                             " WHERE job = ?1 AND step = ?2 AND files = ?3"));
  return statement.Bind(job)
      .Bind(static_cast<int64_t>(checkpoint.step()))
      .BindBlob(FilesBlob(checkpoint))
      .Bind(damage)
      .Bind(absl::ToUnixNanos(now))
      .Run();
}

absl::StatusOr<std::vector<v1::Checkpoint>> ReadUnverifiedSince(ReadTransaction& transaction,
                                                                absl::Time since, int limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("SELECT id, step FROM checkpoints JOIN jobs ON job = number"
                          " WHERE COALESCE(verify_time, checkpoints.create_time) < ?1"
                          " ORDER BY COALESCE(verify_time, checkpoints.create_time) LIMIT ?2"));
  statement.Bind(absl::ToUnixNanos(since)).Bind(static_cast<int64_t>(limit));
  return CheckpointsNamedBy(transaction, statement);
}

absl::StatusOr<std::vector<v1::Checkpoint>> ReadDamagedCheckpoints(ReadTransaction& transaction,
                                                                   int limit) {
  LORSA_ASSIGN_OR_RETURN(Statement statement,
                         transaction.Prepare("SELECT id, step FROM checkpoints JOIN jobs ON job ="
                                             " number WHERE damage != '' ORDER BY job LIMIT ?1"));
  statement.Bind(static_cast<int64_t>(limit));
  return CheckpointsNamedBy(transaction, statement);
}

absl::Status RemoveUnneededCheckpoint(WriteTransaction& transaction, const StoredJob& job,
                                      int64_t step) {
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> all,
                         ReadCheckpoints(transaction, job.record.id));
  const auto usable = [](const v1::Checkpoint& checkpoint) { return checkpoint.damage().empty(); };
  const auto newest = std::find_if(all.rbegin(), all.rend(), usable);
  if (!IsFinal(job.record.job.state()) && newest != all.rend() && newest->step() == step) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint ", CheckpointId(step), " is the newest of job ", job.record.id,
                     ", which has not ended and would go on from it; cancel the job first"));
  }
  return RemoveCheckpoint(transaction, job.number, step, /*even_if_pinned=*/false);
}

absl::Status RemoveCheckpoint(WriteTransaction& transaction, int64_t job, int64_t step,
                              bool even_if_pinned) {
  LORSA_ASSIGN_OR_RETURN(const bool pinned, IsPinned(transaction, job, step));
  if (pinned && !even_if_pinned) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint ", CheckpointId(step), " is pinned; unpin it first"));
  }
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("DELETE FROM checkpoints WHERE job = ?1 AND step = ?2"));
  LORSA_RETURN_IF_ERROR(statement.Bind(job).Bind(step).Run());
  if (even_if_pinned || transaction.changes() == 0) return absl::OkStatus();
  return StoreRemoved(transaction, job, step);
}

}  // namespace lorsa::server

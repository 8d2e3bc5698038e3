#include "server/catalog/checkpoint_table.h"

#include <google/protobuf/util/time_util.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/catalog/data_folder_table.h"
#include "server/model/data_layout.h"
#include "server/model/job_state.h"

namespace lorsa::server {
namespace {

using google::protobuf::util::TimeUtil;

// The order in which CheckpointFromRow reads. Those of a job on its way out are never among them.
#define LORSA_CHECKPOINT_SELECT                                                          \
  "SELECT step, checkpoints.attempt, tokens, checkpoints.create_time, files, fvu,"       \
  " scheduled, pinned, damage, verify_time, jobs.id FROM checkpoints JOIN jobs ON job =" \
  " jobs.number AND deleted = 0 "

absl::StatusOr<v1::Checkpoint> CheckpointFromRow(const Statement& row) {
  const std::string job_id = row.Bytes(10);
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

absl::StatusOr<std::vector<v1::Checkpoint>> CheckpointsFromRows(Statement& statement) {
  std::vector<v1::Checkpoint> checkpoints;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return checkpoints;
    LORSA_ASSIGN_OR_RETURN(v1::Checkpoint checkpoint, CheckpointFromRow(statement));
    checkpoints.push_back(std::move(checkpoint));
  }
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
  LORSA_RETURN_IF_ERROR(statement.Run());
  // The files of this step are wanted again.
  LORSA_ASSIGN_OR_RETURN(
      Statement note,
      transaction.Prepare("DELETE FROM removed_checkpoints WHERE job = ?1 AND step = ?2"));
  return note.Bind(job.number).Bind(static_cast<int64_t>(checkpoint.step())).Run();
}

absl::StatusOr<bool> IsNewestStep(ReadTransaction& transaction, const StoredJob& job,
                                  int64_t step) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("SELECT COUNT(*) FROM checkpoints WHERE job = ?1 AND step >= ?2"));
  LORSA_RETURN_IF_ERROR(statement.Bind(job.number).Bind(step).Step().status());
  return statement.Int(0) == 0;
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
  LORSA_RETURN_IF_ERROR(JobNumber(transaction, job_id).status());
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_CHECKPOINT_SELECT "WHERE jobs.id = ?1 ORDER BY step"));
  LORSA_ASSIGN_OR_RETURN(std::vector<v1::Checkpoint> checkpoints,
                         CheckpointsFromRows(statement.Bind(job_id)));
  MarkBest(checkpoints);
  return checkpoints;
}

absl::StatusOr<v1::Checkpoint> ReadCheckpoint(ReadTransaction& transaction,
                                              absl::string_view job_id, int64_t step) {
  // `best` depends on the others, of which there are few.
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> all,
                         ReadCheckpoints(transaction, job_id));
  return CheckpointOf(all, step, job_id);
}

absl::Status StorePin(WriteTransaction& transaction, int64_t job, int64_t step, bool pinned) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("UPDATE checkpoints SET pinned = ?3 WHERE job = ?1 AND step = ?2"));
  return statement.Bind(job).Bind(step).Bind(static_cast<int64_t>(pinned)).Run();
}

absl::StatusOr<bool> StoreVerdict(WriteTransaction& transaction, absl::string_view job_id,
                                  const v1::Checkpoint& checkpoint, absl::string_view damage,
                                  absl::Time now) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(
          "UPDATE checkpoints SET damage = ?7, verify_time = ?8 WHERE step = ?2 AND files = ?3 AND"
          " create_time = ?4 AND COALESCE(verify_time, create_time) = ?5 AND damage = ?6 AND"
          " job = (SELECT number FROM jobs WHERE id = ?1 AND deleted = 0)"));
  LORSA_RETURN_IF_ERROR(
      statement.Bind(job_id)
          .Bind(static_cast<int64_t>(checkpoint.step()))
          .BindBlob(FilesBlob(checkpoint))
          .Bind(static_cast<int64_t>(TimeUtil::TimestampToNanoseconds(checkpoint.create_time())))
          .Bind(static_cast<int64_t>(TimeUtil::TimestampToNanoseconds(checkpoint.verify_time())))
          .Bind(checkpoint.damage())
          .Bind(damage)
          .Bind(absl::ToUnixNanos(now))
          .Run());
  return transaction.changes() == 1;
}

absl::StatusOr<std::vector<v1::Checkpoint>> ReadUnverifiedSince(ReadTransaction& transaction,
                                                                absl::Time since, int limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_CHECKPOINT_SELECT
                          "WHERE COALESCE(verify_time, checkpoints.create_time) < ?1"
                          " ORDER BY COALESCE(verify_time, checkpoints.create_time) LIMIT ?2"));
  return CheckpointsFromRows(
      statement.Bind(absl::ToUnixNanos(since)).Bind(static_cast<int64_t>(limit)));
}

absl::StatusOr<std::vector<v1::Checkpoint>> ReadDamagedCheckpoints(ReadTransaction& transaction,
                                                                   int limit) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare(LORSA_CHECKPOINT_SELECT "WHERE damage != '' ORDER BY job LIMIT ?1"));
  return CheckpointsFromRows(statement.Bind(static_cast<int64_t>(limit)));
}

absl::Status RemoveCheckpoint(WriteTransaction& transaction, int64_t job, int64_t step,
                              bool keep_files) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      transaction.Prepare("DELETE FROM checkpoints WHERE job = ?1 AND step = ?2"));
  LORSA_RETURN_IF_ERROR(statement.Bind(job).Bind(step).Run());
  if (keep_files || transaction.changes() == 0) return absl::OkStatus();
  return StoreRemoved(transaction, job, step);
}

}  // namespace lorsa::server

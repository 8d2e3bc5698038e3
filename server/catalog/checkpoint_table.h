// Rows of checkpoints. Runs inside a transaction or read that the caller has opened.
#ifndef LORSA_SERVER_CATALOG_CHECKPOINT_TABLE_H_
#define LORSA_SERVER_CATALOG_CHECKPOINT_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/catalog/catalog.h"
#include "server/catalog/job_table.h"
#include "server/catalog/transaction.h"

namespace lorsa::server {

// Stores the row, replacing one of the same step, and the event.
absl::Status StoreCheckpoint(WriteTransaction& transaction, const StoredJob& job,
                             const v1::Checkpoint& checkpoint, bool scheduled, absl::Time now);

// Stores the row alone, for a checkpoint that no attempt of the job made.
absl::Status StoreCopiedCheckpoint(WriteTransaction& transaction, const StoredJob& job,
                                   const v1::Checkpoint& checkpoint, absl::Time now);

// Stores the row of a job that was just inserted and never runs, and makes the job ended.
absl::Status StoreImportedCheckpoint(WriteTransaction& transaction, const StoredJob& job,
                                     const v1::Checkpoint& checkpoint, absl::Time now);

// Oldest step first, with `best`. NOT_FOUND for the job, and for the checkpoint.
absl::StatusOr<std::vector<v1::Checkpoint>> ReadCheckpoints(ReadTransaction& transaction,
                                                            absl::string_view job_id);
absl::StatusOr<v1::Checkpoint> ReadCheckpoint(ReadTransaction& transaction,
                                              absl::string_view job_id, int64_t step);

// Nothing happens to a checkpoint that is not there.
absl::Status StorePin(WriteTransaction& transaction, int64_t job, int64_t step, bool pinned);

// As Catalog::PutVerdict.
absl::StatusOr<bool> StoreVerdict(WriteTransaction& transaction, absl::string_view job_id,
                                  const v1::Checkpoint& checkpoint, absl::string_view damage,
                                  absl::Time now);

// At most `limit` of those that were not looked at since then; the longest ago first. Without
// `best`.
absl::StatusOr<std::vector<v1::Checkpoint>> ReadUnverifiedSince(ReadTransaction& transaction,
                                                                absl::Time since, int limit);

// Without `best`.
absl::StatusOr<std::vector<v1::Checkpoint>> ReadDamagedCheckpoints(ReadTransaction& transaction,
                                                                   int limit);

// Nothing happens to a checkpoint that is not there. `keep_files`: as in Catalog::DeleteCheckpoint.
absl::Status RemoveCheckpoint(WriteTransaction& transaction, int64_t job, int64_t step,
                              bool keep_files);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_CHECKPOINT_TABLE_H_

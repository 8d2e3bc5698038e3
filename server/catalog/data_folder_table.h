// Rows about what lies in the data folder beside the catalog: its generation, folders that are to
// be removed, and what was found there and is adopted (server/jobs/data_adoption.h). Runs inside a
// transaction or read that the caller has opened.
#ifndef LORSA_SERVER_CATALOG_DATA_FOLDER_TABLE_H_
#define LORSA_SERVER_CATALOG_DATA_FOLDER_TABLE_H_

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/catalog/catalog.h"
#include "server/catalog/job_table.h"
#include "server/catalog/transaction.h"

namespace lorsa::server {

absl::StatusOr<int64_t> ReadGeneration(ReadTransaction& transaction);
absl::Status StoreGeneration(WriteTransaction& transaction, int64_t generation);

// The checkpoint is deleted; its folder is to be removed.
absl::Status StoreRemoved(WriteTransaction& transaction, int64_t job, int64_t step);
absl::StatusOr<std::set<int64_t>> ReadRemoved(ReadTransaction& transaction, int64_t job);
absl::Status ForgetRemoved(WriteTransaction& transaction, int64_t job);
absl::Status ForgetAllRemoved(WriteTransaction& transaction);

// Stores the row, replacing one of the same step, and an event with reason ADOPTED.
absl::Status StoreAdoptedCheckpoint(WriteTransaction& transaction, const StoredJob& job,
                                    const v1::Checkpoint& checkpoint, absl::Time now);
// Stores the attempt as the job's current one, whatever its state was, and an event with reason
// ADOPTED.
absl::Status StoreAdoptedAttempt(WriteTransaction& transaction, const StoredJob& job,
                                 const AdoptedAttempt& attempt, absl::Time now);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_DATA_FOLDER_TABLE_H_

// Notices for the webhooks of jobs that have ended, until somebody has taken them. Runs inside a
// transaction or read that the caller has opened.
#ifndef LORSA_SERVER_CATALOG_NOTICE_TABLE_H_
#define LORSA_SERVER_CATALOG_NOTICE_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/catalog/catalog.h"
#include "server/catalog/job_table.h"
#include "server/catalog/transaction.h"

namespace lorsa::server {

// Of a job that has just ended, if it has a webhook; due at once.
absl::Status StoreNotice(WriteTransaction& transaction, const StoredJob& job, absl::Time now);

// As Catalog::DueNotices.
absl::StatusOr<std::vector<PendingNotice>> ReadDueNotices(ReadTransaction& transaction,
                                                          absl::Time now, const DueLimits& limits);

// One more try has failed; the next is due then. OK if the notice is gone.
absl::Status PostponeNotice(WriteTransaction& transaction, int64_t number, absl::Time next_time);

// OK if it is gone.
absl::Status RemoveNotice(WriteTransaction& transaction, int64_t number);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_NOTICE_TABLE_H_

// Rows of activation sets. Runs inside a transaction or read that the caller has opened.
#ifndef LORSA_SERVER_CATALOG_SET_TABLE_H_
#define LORSA_SERVER_CATALOG_SET_TABLE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/catalog/catalog.h"
#include "server/catalog/transaction.h"

namespace lorsa::server {

// The set stored: `set`, or the one of the same id, path and manifest that was there.
absl::StatusOr<v1::ActivationSet> StoreActivationSet(WriteTransaction& transaction,
                                                     const v1::ActivationSet& set);
absl::StatusOr<v1::ActivationSet> ReadActivationSet(ReadTransaction& transaction,
                                                    absl::string_view id);
absl::StatusOr<std::vector<v1::ActivationSet>> ReadActivationSets(ReadTransaction& transaction,
                                                                  absl::string_view after_id,
                                                                  int limit);

absl::StatusOr<std::vector<v1::ActivationSet>> ReadQuarantinedSets(ReadTransaction& transaction,
                                                                   int limit);

// Reads the set, lets `change` alter it, stores it and returns it. An error of `change` is handed
// on.
absl::StatusOr<v1::ActivationSet> ChangeActivationSet(
    WriteTransaction& transaction, absl::string_view id,
    const std::function<absl::Status(v1::ActivationSet&)>& change);

// FAILED_PRECONDITION naming a job that trains on it and has not ended.
absl::Status RemoveActivationSet(WriteTransaction& transaction, absl::string_view id);

// Ids of jobs that train on the set and have not ended.
absl::StatusOr<std::vector<std::string>> ReadJobsUsing(ReadTransaction& transaction,
                                                       absl::string_view set_id);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_SET_TABLE_H_

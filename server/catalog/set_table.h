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

// The set that a job trains on, with the contents that the job was made for. FAILED_PRECONDITION if
// the set is gone or has other contents. A job of a catalog that kept no sums (version 4 and
// earlier) fits a set that was registered before the job was made.
absl::StatusOr<v1::ActivationSet> ReadSetOfJob(ReadTransaction& transaction, const v1::Job& job);
// The same for a job that may have none: an imported checkpoint's.
absl::Status CheckSetOfJob(ReadTransaction& transaction, const v1::Job& job);

// Reads the set, lets `change` alter it, stores it under the next revision and returns it. State,
// problems and the time of the verification are those of the files: its aliases, sets with the same
// folder and manifest, get them too. An error of `change` is handed on.
absl::StatusOr<v1::ActivationSet> ChangeActivationSet(
    WriteTransaction& transaction, absl::string_view id,
    const std::function<absl::Status(v1::ActivationSet&)>& change);

// FAILED_PRECONDITION naming a job that trains on it and has not ended.
absl::Status RemoveActivationSet(WriteTransaction& transaction, absl::string_view id);

// Ids of jobs that train on the set or an alias of it and have not ended.
absl::StatusOr<std::vector<std::string>> ReadJobsUsing(ReadTransaction& transaction,
                                                       absl::string_view set_id);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_SET_TABLE_H_

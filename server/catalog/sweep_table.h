// Rows of sweeps. Runs inside a transaction or read that the caller has opened.
#ifndef LORSA_SERVER_CATALOG_SWEEP_TABLE_H_
#define LORSA_SERVER_CATALOG_SWEEP_TABLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/catalog/catalog.h"
#include "server/catalog/transaction.h"

namespace lorsa::server {

absl::StatusOr<std::optional<v1::Sweep>> FindRepeatedSweep(ReadTransaction& transaction,
                                                           absl::string_view id,
                                                           const RequestIdentity& request);
// Stores the sweep and its jobs, or returns the one that this very request made.
absl::StatusOr<v1::Sweep> InsertSweep(WriteTransaction& transaction, const NewSweep& sweep,
                                      absl::Time now);
absl::StatusOr<v1::Sweep> ReadSweep(ReadTransaction& transaction, absl::string_view id);
// Newest first, those with a lower number than `before`; 0 = from the newest.
absl::StatusOr<std::vector<StoredSweep>> ReadSweeps(ReadTransaction& transaction, int64_t before,
                                                    int limit);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_SWEEP_TABLE_H_

// Rows of activation sets. Runs inside a transaction or read that the caller has opened.
#ifndef LORSA_SERVER_CATALOG_SET_TABLE_H_
#define LORSA_SERVER_CATALOG_SET_TABLE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/catalog/catalog.h"
#include "server/catalog/sqlite.h"

namespace lorsa::server {

// The set stored: `set`, or the one of the same id, path and manifest that was there.
absl::StatusOr<v1::ActivationSet> StoreActivationSet(Connection& connection,
                                                     const v1::ActivationSet& set);
absl::StatusOr<v1::ActivationSet> ReadActivationSet(Connection& connection, absl::string_view id);
absl::StatusOr<std::vector<v1::ActivationSet>> ReadActivationSets(Connection& connection,
                                                                  absl::string_view after_id,
                                                                  int limit);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_SET_TABLE_H_

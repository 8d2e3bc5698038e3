// The catalog's tables.
#ifndef LORSA_SERVER_CATALOG_SCHEMA_H_
#define LORSA_SERVER_CATALOG_SCHEMA_H_

#include "absl/status/status.h"
#include "server/catalog/sqlite.h"

namespace lorsa::server {

// Version of the tables that this program reads and writes, kept in the file's user_version.
inline constexpr int kSchemaVersion = 2;

// Makes the tables in an empty file, or brings those of an older version up to this one, each in
// one transaction, and turns on WAL. FAILED_PRECONDITION,
// leaving the file untouched, if a newer program wrote it.
absl::Status PrepareSchema(Connection& connection);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_SCHEMA_H_

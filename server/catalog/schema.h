// The catalog's tables.
#ifndef LORSA_SERVER_CATALOG_SCHEMA_H_
#define LORSA_SERVER_CATALOG_SCHEMA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "server/catalog/sqlite.h"

namespace lorsa::server {

// Version of the tables that this program reads and writes, kept in the file's user_version. It is
// the version of the whole data folder: what else lies there is described by formats of its own.
inline constexpr int kSchemaVersion = 6;

// Catalogs of earlier ones have no generation (catalog.h).
inline constexpr int kFirstSchemaWithGeneration = 5;

// The version of an open catalog; 0 for an empty file.
absl::StatusOr<int64_t> SchemaVersion(Connection& connection);

// FAILED_PRECONDITION if `version` is above kSchemaVersion.
absl::Status RefuseNewerSchema(int64_t version);

// Of a catalog that can only be read just now, because of `obstacle`: FAILED_PRECONDITION if it has
// another version, DATA_LOSS if its pages are damaged.
absl::Status CheckReadOnlySchema(Connection& connection, const std::string& path,
                                 const absl::Status& obstacle);

// Makes the tables in an empty file, or brings those of an older version up to this one, in one
// transaction; then turns on WAL. Before it changes an older file, which is at `path`, it leaves a
// copy of it beside, PATH.version-N; that copy is for people to delete. FAILED_PRECONDITION if a
// newer program wrote it, DATA_LOSS if its pages are damaged; file and log are then left untouched.
absl::Status PrepareSchema(FileSystem& fs, Connection& connection, const std::string& path);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_SCHEMA_H_

// Copies of a catalog, whole and verified, also of one that a running server writes to.
//
// Protocol of a copy:
//   1. TARGET.tmp, left by a copy that was cut off, is removed.
//   2. VACUUM INTO TARGET.tmp: one read transaction, so the copy is the catalog of one moment,
//      with all that was acknowledged before it and nothing half done. Writers go on meanwhile.
//   3. The copy gets the generation of a copy: the data folder may become newer than it is, which
//      a server that finds it in place of its catalog must notice (server/jobs/data_adoption.h).
//   4. It is opened and every page and index of it checked.
//   5. It is fsynced, renamed to TARGET, and its folder is fsynced.
// On error, and after a crash at any moment, TARGET is what it was before or the whole copy.
#ifndef LORSA_SERVER_CATALOG_CATALOG_BACKUP_H_
#define LORSA_SERVER_CATALOG_CATALOG_BACKUP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "server/catalog/sqlite.h"

namespace lorsa::server {

// Reads the whole file: DATA_LOSS saying what is wrong with its pages, if anything is. There are no
// checksums: a bit that flipped within a value is not noticed. Comparing each index with its table
// takes several times as long.
absl::Status CheckPages(Connection& connection, bool and_indexes);

// Copies what `from` is connected to, which is in no transaction, to the file `target`, replacing
// one that is there. RESOURCE_EXHAUSTED if the disk is full, DATA_LOSS if the catalog is damaged.
absl::Status CopyCatalog(FileSystem& fs, Connection& from, const std::string& target);

// Copies the catalog at `catalog` to `target`. NOT_FOUND if there is none, ALREADY_EXISTS if there
// is something at `target`; else as CopyCatalog.
absl::Status BackUpCatalog(FileSystem& fs, const std::string& catalog, const std::string& target);

// Makes `catalog` from the copy `backup`; no server runs on the catalog. ALREADY_EXISTS if there is
// a catalog, or what SQLite left beside one; NOT_FOUND if there is no backup; FAILED_PRECONDITION
// if a newer program wrote it or it is no catalog; else as CopyCatalog. The backup stays as it is.
absl::Status RestoreCatalog(FileSystem& fs, const std::string& backup, const std::string& catalog);

// Steps of the checkpoints of each job, those without checkpoints included.
using CheckpointSteps = std::map<std::string, std::set<int64_t>, std::less<>>;

// Reads them from the catalog at `path`, of this or an older version. Errors as of RestoreCatalog.
absl::StatusOr<CheckpointSteps> ReadCheckpointSteps(const std::string& path);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_CATALOG_BACKUP_H_

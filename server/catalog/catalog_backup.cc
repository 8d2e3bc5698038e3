// The numbers are those of the protocol in catalog_backup.h.
#include "server/catalog/catalog_backup.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "server/catalog/catalog.h"
#include "server/catalog/schema.h"

namespace lorsa::server {
namespace {

absl::Status VacuumInto(Connection& from, const std::string& target) {
  LORSA_ASSIGN_OR_RETURN(Statement statement, from.Prepare("VACUUM INTO ?1"));
  return statement.Bind(target).Run();
}

// A catalog of an older version has no generation.
absl::Status MarkAsCopy(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const auto connection, Connection::OpenExisting(path));
  LORSA_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(*connection));
  if (version < kFirstSchemaWithGeneration) return absl::OkStatus();
  return connection->Execute(
      absl::StrCat("UPDATE data_folder SET generation = ", kGenerationOfCopy));
}

absl::Status CheckCopy(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const auto connection, Connection::OpenExisting(path));
  return CheckPages(*connection, /*and_indexes=*/true);
}

absl::Status RefuseIfPresent(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const bool exists, fs.Exists(path));
  if (!exists) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(path, " exists and is not overwritten: move it away or name another"));
}

// A catalog that this program can read.
absl::StatusOr<std::unique_ptr<Connection>> OpenBackup(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(auto connection, Connection::OpenExisting(path));
  LORSA_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(*connection));
  if (version == 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a catalog of lorsad"));
  }
  LORSA_RETURN_IF_ERROR(RefuseNewerSchema(version));
  return connection;
}

}  // namespace

absl::Status CheckPages(Connection& connection, bool and_indexes) {
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      connection.Prepare(and_indexes ? "PRAGMA integrity_check(1)" : "PRAGMA quick_check(1)"));
  const absl::StatusOr<bool> row = statement.Step();
  if (!row.ok() && !absl::IsDataLoss(row.status())) return row.status();
  const std::string verdict = row.ok() ? statement.Bytes(0) : std::string(row.status().message());
  if (verdict == "ok") return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the catalog is damaged: ", absl::StrReplaceAll(verdict, {{"\n", " "}}),
                   "; restore it from a backup (lorsad restore)"));
}

absl::Status CopyCatalog(FileSystem& fs, Connection& from, const std::string& target) {
  const std::string copy = target + ".tmp";
  LORSA_RETURN_IF_ERROR(fs.RemoveAll(copy));     // 1
  absl::Status status = VacuumInto(from, copy);  // 2
  if (status.ok()) status = MarkAsCopy(copy);    // 3
  if (status.ok()) status = CheckCopy(copy);     // 4
  if (status.ok()) status = fs.SyncFile(copy);   // 5
  if (status.ok()) status = fs.Rename(copy, target);
  if (!status.ok()) {
    fs.RemoveAll(copy).IgnoreError();  // The first error is the one to report.
    return status;
  }
  return fs.SyncDirectory(DirectoryOf(target));
}

absl::Status BackUpCatalog(FileSystem& fs, const std::string& catalog, const std::string& target) {
  LORSA_RETURN_IF_ERROR(RefuseIfPresent(fs, target));
  LORSA_ASSIGN_OR_RETURN(const auto connection, Connection::OpenExisting(catalog));
  return CopyCatalog(fs, *connection, target);
}

absl::Status RestoreCatalog(FileSystem& fs, const std::string& backup, const std::string& catalog) {
  // A write-ahead log without its catalog would be applied to the one restored.
  for (const char* suffix : {"", "-wal", "-shm"}) {
    LORSA_RETURN_IF_ERROR(RefuseIfPresent(fs, catalog + suffix));
  }
  LORSA_ASSIGN_OR_RETURN(const auto connection, OpenBackup(backup));
  return CopyCatalog(fs, *connection, catalog);
}

absl::StatusOr<CheckpointSteps> ReadCheckpointSteps(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const auto connection, OpenBackup(path));
  LORSA_ASSIGN_OR_RETURN(
      Statement statement,
      connection->Prepare("SELECT id, step FROM jobs LEFT JOIN checkpoints ON job = number"));
  CheckpointSteps steps;
  while (true) {
    LORSA_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) return steps;
    std::set<int64_t>& of_job = steps[statement.Bytes(0)];
    if (!statement.IsNull(1)) of_job.insert(statement.Int(1));
  }
}

}  // namespace lorsa::server

#include "server/catalog/schema.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

// Times are nanoseconds since the Unix epoch. Blobs are Protobuf messages. Tables refer to jobs by
// number, not id: shorter keys in the long tables.
constexpr char kTables[] = R"sql(
CREATE TABLE jobs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of creation
  id TEXT NOT NULL UNIQUE,
  spec BLOB NOT NULL,            -- TrainingSpec
  resolved_spec BLOB NOT NULL,   -- TrainingSpec
  request_id TEXT NOT NULL,
  state INTEGER NOT NULL,        -- JobState
  reason TEXT NOT NULL,
  message TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  revision INTEGER NOT NULL,     -- of the newest event
  create_time INTEGER NOT NULL,
  start_time INTEGER,
  end_time INTEGER,
  queue_position INTEGER NOT NULL,
  not_before INTEGER,
  recoveries INTEGER NOT NULL
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, queue_position);
CREATE INDEX jobs_by_queue_position ON jobs (queue_position);

CREATE TABLE attempts (
  job INTEGER NOT NULL REFERENCES jobs (number),
  attempt INTEGER NOT NULL,
  token_sha256 TEXT NOT NULL UNIQUE,
  boot_id TEXT NOT NULL,
  pid INTEGER NOT NULL,          -- 0 = not known yet
  start_ticks INTEGER NOT NULL,
  last_batch INTEGER NOT NULL,   -- number of the newest metric batch stored
  PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  job INTEGER NOT NULL REFERENCES jobs (number),
  revision INTEGER NOT NULL,
  time INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  from_state INTEGER NOT NULL,
  to_state INTEGER NOT NULL,
  reason TEXT NOT NULL,
  message TEXT NOT NULL,
  PRIMARY KEY (job, revision)
) STRICT, WITHOUT ROWID;

-- A point that is stored again gets a new, higher sequence: readers that go on from the last
-- sequence they saw meet it again. AUTOINCREMENT never hands out a number twice.
CREATE TABLE metrics (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL REFERENCES jobs (number),
  kind INTEGER NOT NULL,         -- MetricKind
  step INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  time INTEGER NOT NULL,
  point BLOB NOT NULL,           -- MetricPoint with nothing but its values
  UNIQUE (job, kind, step)
) STRICT;
CREATE INDEX metrics_by_sequence ON metrics (job, sequence);

CREATE TABLE checkpoints (
  job INTEGER NOT NULL REFERENCES jobs (number),
  step INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  create_time INTEGER NOT NULL,
  files BLOB NOT NULL,           -- Checkpoint with nothing but its files
  fvu REAL,
  scheduled INTEGER NOT NULL,    -- 0 or 1
  pinned INTEGER NOT NULL,       -- 0 or 1
  PRIMARY KEY (job, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE activation_sets (
  id TEXT PRIMARY KEY,
  activation_set BLOB NOT NULL   -- ActivationSet
) STRICT, WITHOUT ROWID;
)sql";

// From version 1. Of its checkpoints it is not known any more whether they were scheduled; nearly
// all were.
constexpr char kUpgradeFrom1[] = R"sql(
ALTER TABLE checkpoints ADD COLUMN scheduled INTEGER NOT NULL DEFAULT 1;
ALTER TABLE checkpoints ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
)sql";

absl::StatusOr<int64_t> UserVersion(Connection& connection) {
  LORSA_ASSIGN_OR_RETURN(Statement statement, connection.Prepare("PRAGMA user_version"));
  LORSA_RETURN_IF_ERROR(statement.Step().status());
  return statement.Int(0);
}

absl::Status Change(Connection& connection, absl::string_view statements) {
  const absl::Status status = connection.Execute(absl::StrCat(
      "BEGIN IMMEDIATE;", statements, "PRAGMA user_version = ", kSchemaVersion, "; COMMIT;"));
  if (!status.ok() && connection.in_transaction()) {
    connection.Execute("ROLLBACK").IgnoreError();  // The first error is the one to report.
  }
  return status;
}

}  // namespace

absl::Status PrepareSchema(Connection& connection) {
  LORSA_ASSIGN_OR_RETURN(const int64_t version, UserVersion(connection));
  if (version > kSchemaVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the catalog has version ", version,
                                                      ", this program knows ", kSchemaVersion,
                                                      "; start the newer lorsad that wrote it"));
  }
  LORSA_RETURN_IF_ERROR(connection.Execute("PRAGMA journal_mode = WAL"));
  if (version == kSchemaVersion) return absl::OkStatus();
  return Change(connection, version == 1 ? kUpgradeFrom1 : kTables);
}

}  // namespace lorsa::server

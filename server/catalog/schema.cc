#include "server/catalog/schema.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/catalog/catalog_backup.h"

namespace lorsa::server {
namespace {

// Times are nanoseconds since the Unix epoch. Blobs are Protobuf messages. Tables refer to jobs by
// number, not id: shorter keys in the long tables.
constexpr char kTables[] = R"sql(
CREATE TABLE sweeps (
  number INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of creation
  id TEXT NOT NULL UNIQUE,
  request_id TEXT NOT NULL,
  request_sha256 TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  sweep BLOB NOT NULL            -- Sweep with nothing but what its client set
) STRICT;

CREATE TABLE jobs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of creation
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL DEFAULT 'training',  -- Job.kind
  uid TEXT NOT NULL DEFAULT '',  -- Job.uid
  spec BLOB NOT NULL,            -- the message of that kind: TrainingSpec, else ProgramSpec
  resolved_spec BLOB NOT NULL,   -- the same
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
  recoveries INTEGER NOT NULL,
  request_sha256 TEXT NOT NULL,
  policy BLOB NOT NULL,          -- JobPolicy
  priority INTEGER NOT NULL,     -- of the policy
  deadline INTEGER,              -- of the policy; null once it counts no longer
  expire_time INTEGER,           -- of a job that has ended and has a ttl
  startup_failures INTEGER NOT NULL DEFAULT 0,  -- losses before hello, one after the other
  memory_bytes INTEGER NOT NULL, -- expected; 0 = not known
  log_tail TEXT NOT NULL DEFAULT '',  -- of the attempt that was lost or failed last
  forked_from TEXT NOT NULL,     -- name of a checkpoint, or empty
  sweep INTEGER REFERENCES sweeps (number),
  deleted INTEGER NOT NULL DEFAULT 0  -- 1: on its way out, invisible
) STRICT;
CREATE INDEX jobs_in_queue ON jobs (state, priority DESC, queue_position);
CREATE INDEX jobs_by_deadline ON jobs (deadline) WHERE deadline IS NOT NULL;
CREATE INDEX jobs_by_expire_time ON jobs (expire_time) WHERE expire_time IS NOT NULL;
CREATE INDEX jobs_by_sweep ON jobs (sweep, number) WHERE sweep IS NOT NULL;
CREATE INDEX jobs_deleted ON jobs (number) WHERE deleted = 1;
CREATE INDEX jobs_by_queue_position ON jobs (queue_position);

CREATE TABLE job_labels (
  job INTEGER NOT NULL REFERENCES jobs (number),
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;

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
-- With the step, so that a thinned history is read without the rows that it leaves out.
CREATE INDEX metrics_in_order ON metrics (job, kind, sequence, step);

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
  damage TEXT NOT NULL DEFAULT '',  -- what the last look at its files found wrong
  verify_time INTEGER,           -- of that look; null = none since create_time
  PRIMARY KEY (job, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX checkpoints_damaged ON checkpoints (job) WHERE damage != '';

CREATE TABLE activation_sets (
  id TEXT PRIMARY KEY,
  activation_set BLOB NOT NULL,  -- ActivationSet
  quarantined INTEGER NOT NULL DEFAULT 0  -- 0 or 1; as in the message, to be found by
) STRICT, WITHOUT ROWID;

-- For webhooks of jobs that have ended, and that may be gone before it is taken.
CREATE TABLE notices (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  url TEXT NOT NULL,
  notice BLOB NOT NULL,          -- JobEndedNotice
  create_time INTEGER NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0,
  next_time INTEGER NOT NULL,    -- when it is due
  job TEXT NOT NULL DEFAULT '',       -- id: its notices go out in order of number
  receiver TEXT NOT NULL DEFAULT ''   -- HOST:PORT of the url
) STRICT;
CREATE INDEX notices_by_next_time ON notices (next_time);
CREATE INDEX notices_by_job ON notices (job, number);

-- Checkpoints that were deleted and whose folder may still be there: what of it the server removes.
CREATE TABLE removed_checkpoints (
  job INTEGER NOT NULL REFERENCES jobs (number),
  step INTEGER NOT NULL,
  PRIMARY KEY (job, step)
) STRICT, WITHOUT ROWID;

-- One row, as in server/jobs/data_adoption.h.
CREATE TABLE data_folder (
  generation INTEGER NOT NULL    -- 0 = of a copy
) STRICT;
INSERT INTO data_folder VALUES (1);
)sql";

// From version 1. Of its checkpoints it is not known any more whether they were scheduled; nearly
// all were.
constexpr char kUpgradeFrom1[] = R"sql(
ALTER TABLE checkpoints ADD COLUMN scheduled INTEGER NOT NULL DEFAULT 1;
ALTER TABLE checkpoints ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
)sql";

// From version 2. Sets of that time say nothing of a state; they are ready. A request of that time
// that is sent again is not known any more.
constexpr char kUpgradeFrom2[] = R"sql(
ALTER TABLE checkpoints ADD COLUMN damage TEXT NOT NULL DEFAULT '';
ALTER TABLE checkpoints ADD COLUMN verify_time INTEGER;
CREATE INDEX checkpoints_damaged ON checkpoints (job) WHERE damage != '';
ALTER TABLE activation_sets ADD COLUMN quarantined INTEGER NOT NULL DEFAULT 0;
CREATE TABLE sweeps (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  request_id TEXT NOT NULL,
  request_sha256 TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  sweep BLOB NOT NULL
) STRICT;
ALTER TABLE jobs ADD COLUMN request_sha256 TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN policy BLOB NOT NULL DEFAULT x'';
ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN deadline INTEGER;
ALTER TABLE jobs ADD COLUMN expire_time INTEGER;
ALTER TABLE jobs ADD COLUMN startup_failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN memory_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN log_tail TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN forked_from TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN sweep INTEGER REFERENCES sweeps (number);
ALTER TABLE jobs ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
DROP INDEX jobs_by_state;
CREATE INDEX jobs_in_queue ON jobs (state, priority DESC, queue_position);
CREATE INDEX jobs_by_deadline ON jobs (deadline) WHERE deadline IS NOT NULL;
CREATE INDEX jobs_by_expire_time ON jobs (expire_time) WHERE expire_time IS NOT NULL;
CREATE INDEX jobs_by_sweep ON jobs (sweep, number) WHERE sweep IS NOT NULL;
CREATE INDEX jobs_deleted ON jobs (number) WHERE deleted = 1;
CREATE TABLE job_labels (
  job INTEGER NOT NULL REFERENCES jobs (number),
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;
DROP INDEX metrics_by_sequence;
CREATE INDEX metrics_in_order ON metrics (job, kind, sequence, step);
)sql";

constexpr char kUpgradeFrom3[] = R"sql(
CREATE TABLE notices (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  url TEXT NOT NULL,
  notice BLOB NOT NULL,
  create_time INTEGER NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0,
  next_time INTEGER NOT NULL
) STRICT;
CREATE INDEX notices_by_next_time ON notices (next_time);
)sql";

// A data folder that a newer server has used has a higher generation: the catalog is a copy then.
// A notice of that time does not wait for others of its job; its receiver is cut out of its URL.
constexpr char kUpgradeFrom4[] = R"sql(
CREATE TABLE removed_checkpoints (
  job INTEGER NOT NULL REFERENCES jobs (number),
  step INTEGER NOT NULL,
  PRIMARY KEY (job, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE data_folder (
  generation INTEGER NOT NULL
) STRICT;
INSERT INTO data_folder VALUES (1);
ALTER TABLE notices ADD COLUMN job TEXT NOT NULL DEFAULT '';
ALTER TABLE notices ADD COLUMN receiver TEXT NOT NULL DEFAULT '';
UPDATE notices SET job = ':' || number, receiver = lower(substr(url, instr(url, '://') + 3));
UPDATE notices SET receiver = substr(receiver, 1, instr(receiver || '/', '/') - 1);
UPDATE notices SET receiver = substr(receiver, 1, instr(receiver || '?', '?') - 1);
UPDATE notices SET receiver = substr(receiver, 1, instr(receiver || '#', '#') - 1);
CREATE INDEX notices_by_job ON notices (job, number);
)sql";

// Jobs of that time are training jobs.
constexpr char kUpgradeFrom5[] = R"sql(
ALTER TABLE jobs ADD COLUMN kind TEXT NOT NULL DEFAULT 'training';
ALTER TABLE jobs ADD COLUMN uid TEXT NOT NULL DEFAULT '';
UPDATE jobs SET uid = lower(hex(randomblob(16)));
)sql";

// kUpgrades[i] makes a catalog of version i + 2 from one of version i + 1. A new version adds its
// line here and brings kTables up to the same; a test holds the two against each other.
constexpr const char* kUpgrades[] = {kUpgradeFrom1, kUpgradeFrom2, kUpgradeFrom3, kUpgradeFrom4,
                                     kUpgradeFrom5};
static_assert(std::size(kUpgrades) + 1 == kSchemaVersion);

absl::Status Change(Connection& connection, absl::string_view statements) {
  const absl::Status status = connection.Execute(absl::StrCat(
      "BEGIN IMMEDIATE;", statements, "PRAGMA user_version = ", kSchemaVersion, "; COMMIT;"));
  if (!status.ok() && connection.in_transaction()) {
    connection.Execute("ROLLBACK").IgnoreError();  // The first error is the one to report.
  }
  return status;
}

absl::Status Upgrade(FileSystem& fs, Connection& connection, const std::string& path,
                     int64_t version) {
  const std::string backup = absl::StrCat(path, ".version-", version);
  LORSA_RETURN_IF_ERROR(CopyCatalog(fs, connection, backup));
  std::string statements;
  for (int64_t i = version; i < kSchemaVersion; ++i) absl::StrAppend(&statements, kUpgrades[i - 1]);
  LORSA_RETURN_IF_ERROR(Change(connection, statements));
  spdlog::info("event=catalog_upgraded from_version={} to_version={} backup={}", version,
               kSchemaVersion, backup);
  return absl::OkStatus();
}

// 0 if there is no such file. It is not opened: when a process closes any descriptor of a file, it
// loses all its locks on that file (POSIX), SQLite's as well. Another program that closes the
// catalog would then take itself for the last user and delete the log.
uint64_t SizeOf(const std::string& path) {
  struct stat file;
  return ::stat(path.c_str(), &file) == 0 ? static_cast<uint64_t>(file.st_size) : 0;
}

// SQLite reads zeros for what the last page lacks. While there is a log, that may hold the page.
absl::Status CheckLastPage(Connection& connection, const std::string& path) {
  if (SizeOf(path + "-wal") > 0) return absl::OkStatus();
  LORSA_ASSIGN_OR_RETURN(Statement statement, connection.Prepare("PRAGMA page_size"));
  LORSA_RETURN_IF_ERROR(statement.Step().status());
  const uint64_t bytes = SizeOf(path);
  if (bytes % static_cast<uint64_t>(statement.Int(0)) == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the catalog is damaged: its ", bytes,
                                          " bytes end within a page; restore it ",
                                          "from a backup (lorsad restore)"));
}

// Damage would come out as rows that are missing, and be written over.
absl::Status RefuseUnsound(Connection& connection, const std::string& path, int64_t version) {
  LORSA_RETURN_IF_ERROR(RefuseNewerSchema(version));
  LORSA_RETURN_IF_ERROR(CheckLastPage(connection, path));
  return CheckPages(connection, /*and_indexes=*/false);
}

}  // namespace

absl::StatusOr<int64_t> SchemaVersion(Connection& connection) {
  LORSA_ASSIGN_OR_RETURN(Statement statement, connection.Prepare("PRAGMA user_version"));
  LORSA_RETURN_IF_ERROR(statement.Step().status());
  return statement.Int(0);
}

absl::Status RefuseNewerSchema(int64_t version) {
  if (version <= kSchemaVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the catalog has version ", version,
                                                    ", this program knows ", kSchemaVersion,
                                                    "; start the newer lorsad that wrote it"));
}

absl::Status CheckReadOnlySchema(Connection& connection, const std::string& path,
                                 const absl::Status& obstacle) {
  LORSA_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(connection));
  LORSA_RETURN_IF_ERROR(RefuseUnsound(connection, path, version));
  if (version == kSchemaVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the catalog has version ", version, " and cannot be brought up to ", kSchemaVersion, ": ",
      obstacle.message(), "; make room with the lorsad that wrote it, or by hand"));
}

absl::Status PrepareSchema(FileSystem& fs, Connection& connection, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const int64_t version, SchemaVersion(connection));
  if (const absl::Status refusal = RefuseUnsound(connection, path, version); !refusal.ok()) {
    connection.LeaveLogOnClose();
    return refusal;
  }
  if (version == 0) {
    LORSA_RETURN_IF_ERROR(Change(connection, kTables));
  } else if (version < kSchemaVersion) {
    LORSA_RETURN_IF_ERROR(Upgrade(fs, connection, path, version));
  }
  return connection.Execute("PRAGMA journal_mode = WAL");
}

}  // namespace lorsa::server

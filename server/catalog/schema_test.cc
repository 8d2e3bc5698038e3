// Catalogs of every version, made of the tables that the program of that version made.
#include "server/catalog/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/failing_file_system.h"
#include "base/scratch_folder.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kVersion1[] = R"sql(
CREATE TABLE jobs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  spec BLOB NOT NULL,
  resolved_spec BLOB NOT NULL,
  request_id TEXT NOT NULL,
  state INTEGER NOT NULL,
  reason TEXT NOT NULL,
  message TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  revision INTEGER NOT NULL,
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
  pid INTEGER NOT NULL,
  start_ticks INTEGER NOT NULL,
  last_batch INTEGER NOT NULL,
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
CREATE TABLE metrics (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL REFERENCES jobs (number),
  kind INTEGER NOT NULL,
  step INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  time INTEGER NOT NULL,
  point BLOB NOT NULL,
  UNIQUE (job, kind, step)
) STRICT;
CREATE INDEX metrics_by_sequence ON metrics (job, sequence);
CREATE TABLE checkpoints (
  job INTEGER NOT NULL REFERENCES jobs (number),
  step INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  create_time INTEGER NOT NULL,
  files BLOB NOT NULL,
  fvu REAL,
  PRIMARY KEY (job, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE activation_sets (
  id TEXT PRIMARY KEY,
  activation_set BLOB NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
INSERT INTO jobs VALUES (1, 'old', x'', x'', '', 1, '', '', 0, 0, 0, NULL, NULL, 0, NULL, 0);
INSERT INTO checkpoints VALUES (1, 10, 1, 240, 0, x'', 0.5);
)sql";

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// Table or index → what makes it up, whatever the order of the columns and their defaults.
std::map<std::string, std::string> Shape(Connection& connection) {
  std::map<std::string, std::string> shape;
  auto columns = connection
                     .Prepare(
                         "SELECT m.name || '.' || c.name, c.type || c.\"notnull\" || c.pk"
                         " FROM sqlite_master m, pragma_table_info(m.name) c")
                     .value();
  while (columns.Step().value()) shape[columns.Bytes(0)] = columns.Bytes(1);
  auto indices =
      connection.Prepare("SELECT name, sql FROM sqlite_master WHERE type = 'index'").value();
  while (indices.Step().value()) shape[indices.Bytes(0)] = indices.Bytes(1);
  return shape;
}

class SchemaTest : public ::testing::Test {
 protected:
  std::string Path() const { return folder_.Path("catalog.sqlite"); }
  void MakeVersion1() { ASSERT_TRUE(Connection::Open(Path()).value()->Execute(kVersion1).ok()); }
  int64_t VersionOf(const std::string& path) {
    return SchemaVersion(*Connection::OpenExisting(path).value()).value();
  }

  ScratchFolder folder_;
  PosixFileSystem fs_;
};

TEST_F(SchemaTest, OldCatalogIsBroughtUpToDateWithACopyBeside) {
  MakeVersion1();
  const auto catalog = Catalog::Open(Path());
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  const auto checkpoints = (*catalog)->ListCheckpoints("old");
  ASSERT_TRUE(checkpoints.ok()) << checkpoints.status();
  ASSERT_EQ(checkpoints->size(), 1);
  EXPECT_TRUE(checkpoints->front().scheduled());
  EXPECT_FALSE(checkpoints->front().pinned());
  EXPECT_EQ(checkpoints->front().fvu(), 0.5);
  EXPECT_TRUE((*catalog)->PinCheckpoint("old", AtStep(10), true)->pinned());

  EXPECT_EQ(VersionOf(Path()), kSchemaVersion);
  EXPECT_EQ(VersionOf(Path() + ".version-1"), 1);
  auto copy = Connection::OpenExisting(Path() + ".version-1").value();
  auto rows = copy->Prepare("SELECT COUNT(*) FROM checkpoints").value();
  ASSERT_TRUE(rows.Step().value());
  EXPECT_EQ(rows.Int(0), 1);
}

TEST_F(SchemaTest, NewAndUpgradedCatalogsHaveTheFirstGeneration) {
  MakeVersion1();
  EXPECT_EQ(Catalog::Open(Path()).value()->Generation().value(), 1);
  EXPECT_EQ(Catalog::Open(folder_.Path("new.sqlite")).value()->Generation().value(), 1);
}

TEST_F(SchemaTest, UpgradedCatalogHasTheTablesOfANewOne) {
  MakeVersion1();
  ASSERT_TRUE(Catalog::Open(Path()).ok());
  ASSERT_TRUE(Catalog::Open(folder_.Path("new.sqlite")).ok());
  EXPECT_EQ(Shape(*Connection::OpenExisting(Path()).value()),
            Shape(*Connection::OpenExisting(folder_.Path("new.sqlite")).value()));
}

TEST_F(SchemaTest, NoticesThatWaitAreKeptWithTheirReceivers) {
  MakeVersion1();
  ASSERT_TRUE(Catalog::Open(Path()).ok());
  const absl::Status changed = Connection::OpenExisting(Path()).value()->Execute(R"sql(
ALTER TABLE jobs DROP COLUMN kind;
ALTER TABLE jobs DROP COLUMN uid;
DROP TABLE removed_checkpoints;
DROP TABLE data_folder;
DROP INDEX notices_by_job;
ALTER TABLE notices DROP COLUMN job;
ALTER TABLE notices DROP COLUMN receiver;
INSERT INTO notices (url, notice, create_time, next_time) VALUES
  ('https://Example.org:81/hook?x', x'', 1, 1), ('http://example.org?y=/', x'', 1, 2),
  ('http://example.org#z', x'', 1, 3), ('http://other.org', x'', 1, 4);
PRAGMA user_version = 4;
)sql");
  ASSERT_TRUE(changed.ok()) << changed;
  const auto catalog = Catalog::Open(Path());
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  std::vector<std::string> receivers;
  for (const auto& notice :
       (*catalog)->DueNotices(absl::InfiniteFuture(), {.per_receiver = 10}).value()) {
    receivers.push_back(notice.receiver);
  }
  EXPECT_THAT(receivers, ElementsAre("example.org:81", "example.org", "example.org", "other.org"));
}

// As version 5 stored it: the specification is that of a training job, and there is no uid.
TEST_F(SchemaTest, JobsOfEveryStateBecomeTrainingJobs) {
  std::map<v1::JobState, std::string> ids;
  {
    const auto catalog = Catalog::Open(Path()).value();
    for (int state = v1::JOB_STATE_QUEUED; state < v1::JobState_ARRAYSIZE; ++state) {
      NewJob job{.id = absl::StrCat("job-", state)};
      job.spec.mutable_training()->set_top_k(state);
      job.resolved_spec.mutable_training()->set_threads(2);
      job.resolved_spec.mutable_training()->set_ranks(3);
      ASSERT_TRUE(catalog->CreateJob(job, absl::UnixEpoch()).ok());
      ids[static_cast<v1::JobState>(state)] = job.id;
    }
  }
  {
    auto old = Connection::OpenExisting(Path()).value();
    for (const auto& [state, id] : ids) {
      ASSERT_TRUE(
          old->Execute(absl::StrCat("UPDATE jobs SET state = ", state, " WHERE id = '", id, "'"))
              .ok());
    }
    ASSERT_TRUE(old->Execute("ALTER TABLE jobs DROP COLUMN kind; ALTER TABLE jobs DROP COLUMN uid;"
                             "PRAGMA user_version = 5")
                    .ok());
  }
  const auto catalog = Catalog::Open(Path());
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  std::set<std::string> uids;
  for (const auto& [state, id] : ids) {
    const v1::Job job = (*catalog)->GetJob(id)->job;
    EXPECT_EQ(job.state(), state) << id;
    EXPECT_EQ(job.kind(), "training") << id;
    EXPECT_EQ(job.spec().training().top_k(), state) << id;
    EXPECT_EQ(job.cpu_slots(), 6) << id;
    EXPECT_EQ(job.uid().size(), 32) << id;
    uids.insert(job.uid());
  }
  EXPECT_EQ(uids.size(), ids.size());
}

TEST_F(SchemaTest, NothingIsChangedWithoutACopy) {
  for (const char* operation : {"syncfile", "rename", "syncdir"}) {
    std::filesystem::remove(Path());
    MakeVersion1();
    FailingFileSystem failing(operation);
    auto connection = Connection::Open(Path()).value();
    EXPECT_FALSE(PrepareSchema(failing, *connection, Path()).ok()) << operation;
    EXPECT_TRUE(failing.failed()) << operation;
    EXPECT_EQ(SchemaVersion(*connection).value(), 1) << operation;
    EXPECT_FALSE(std::filesystem::exists(Path() + ".version-1.tmp")) << operation;
    // The next try goes well, whatever the one before left.
    EXPECT_TRUE(PrepareSchema(fs_, *connection, Path()).ok()) << operation;
  }
}

// A page whose count of cells was damaged came out as jobs that did not exist.
TEST_F(SchemaTest, DamagedPagesAreRefusedAndLeftAsTheyAre) {
  ASSERT_TRUE(Catalog::Open(Path()).ok());
  constexpr int kPage = 4096, kCellCount = 4;
  {
    std::fstream file(Path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kPage + kCellCount);
    file.put(9);
  }
  const std::string file = Contents(Path());
  const auto status = Catalog::Open(Path()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("restore it from a backup"));
  EXPECT_EQ(Contents(Path()), file);
}

// SQLite filled up the last page with zeros, and values that stood there changed.
TEST_F(SchemaTest, AFileThatLacksItsLastByteIsRefusedAndLeftAsItIs) {
  ASSERT_TRUE(Catalog::Open(Path()).ok());
  std::filesystem::resize_file(Path(), std::filesystem::file_size(Path()) - 1);
  const std::string file = Contents(Path());
  const auto status = Catalog::Open(Path()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("within a page"));
  EXPECT_EQ(Contents(Path()), file);
}

TEST_F(SchemaTest, NewerCatalogIsRefusedAndItsFileAndLogLeftAsTheyAre) {
  // As a newer lorsad leaves them when it is killed: the version stands in the log alone.
  ASSERT_TRUE(Catalog::Open(Path()).ok());
  auto writer = Connection::Open(Path()).value();
  ASSERT_TRUE(writer->Execute("PRAGMA user_version = 99").ok());
  const std::string killed = folder_.Path("killed.sqlite");
  std::filesystem::copy(Path(), killed);
  std::filesystem::copy(Path() + "-wal", killed + "-wal");
  const std::string file = Contents(killed), log = Contents(killed + "-wal");
  ASSERT_FALSE(log.empty());

  const auto status = Catalog::Open(killed).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("newer lorsad"));
  EXPECT_EQ(Contents(killed), file);
  EXPECT_EQ(Contents(killed + "-wal"), log);
}

}  // namespace
}  // namespace lorsa::server

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "server/catalog/catalog_test_fixture.h"
#include "server/catalog/sqlite.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(CatalogTest, JobSurvivesReopening) {
  Create("demo");
  Reopen();
  const JobRecord job = catalog_->GetJob("demo").value();
  EXPECT_EQ(job.job.name(), "jobs/demo");
  EXPECT_EQ(job.job.state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(job.job.reason(), "CREATED");
  EXPECT_EQ(job.job.revision(), 1);
  EXPECT_EQ(job.job.spec().training().top_k(), 64);
  EXPECT_EQ(job.job.resolved_spec().training().seed(), 7);
  EXPECT_EQ(job.job.create_time().seconds(), absl::ToUnixSeconds(kStart));
  EXPECT_FALSE(job.job.has_start_time());
}

TEST_F(CatalogTest, JobsOfOtherKindsSurviveReopening) {
  NewJob job{.id = "toy", .uid = "of the job"};
  job.spec.mutable_program()->set_kind("digest");
  job.resolved_spec = job.spec;
  job.resolved_spec.mutable_program()->set_threads(3);
  ASSERT_TRUE(catalog_->CreateJob(job, kStart).ok());
  Reopen();
  const v1::Job stored = catalog_->GetJob("toy")->job;
  EXPECT_EQ(stored.kind(), "digest");
  EXPECT_EQ(stored.uid(), "of the job");
  EXPECT_EQ(stored.spec().program().kind(), "digest");
  EXPECT_EQ(stored.cpu_slots(), 3);
}

TEST_F(CatalogTest, EachJobHasAUidOfItsOwn) {
  Create("a");
  Create("b");
  const std::string a = catalog_->GetJob("a")->job.uid(), b = catalog_->GetJob("b")->job.uid();
  EXPECT_EQ(a.size(), 32);
  EXPECT_NE(a, b);
}

TEST_F(CatalogTest, SameRequestGivesTheSameJobAlsoAfterReopening) {
  ASSERT_TRUE(catalog_->CreateJob(Named("demo", "r1"), kStart).ok());
  Reopen();
  const auto again = catalog_->CreateJob(Named("demo", "r1"), kStart + absl::Seconds(5));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->job.create_time().seconds(), absl::ToUnixSeconds(kStart));
  EXPECT_EQ(again->job.revision(), 1);
}

TEST_F(CatalogTest, TakenIdIsRefusedForAnotherRequest) {
  ASSERT_TRUE(catalog_->CreateJob(Named("demo", "r1"), kStart).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(catalog_->CreateJob(Named("demo", "r2"), kStart).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(catalog_->CreateJob(Named("demo"), kStart).status()));
  NewJob other = Named("demo", "r1");
  other.request.sha256 = "sha256 of another request";
  EXPECT_TRUE(absl::IsAlreadyExists(catalog_->CreateJob(other, kStart).status()));
}

TEST_F(CatalogTest, WithoutRequestIdARepeatIsRefused) {
  Create("demo");
  EXPECT_TRUE(absl::IsAlreadyExists(catalog_->CreateJob(Named("demo"), kStart).status()));
}

TEST_F(CatalogTest, ChangeWritesRowAndEventTogether) {
  Create("demo");
  const absl::Time later = kStart + absl::Seconds(3);
  ASSERT_TRUE(catalog_->UpdateJob("demo", later, To(v1::JOB_STATE_CANCELLED)).ok());
  const JobRecord job = catalog_->GetJob("demo").value();
  EXPECT_EQ(job.job.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(job.job.end_time().seconds(), absl::ToUnixSeconds(later));
  const auto events = catalog_->ListEvents("demo", 1, 10).value();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].revision(), 2);
  EXPECT_EQ(events[0].from_state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(events[0].to_state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(events[0].reason(), "TEST");
}

TEST_F(CatalogTest, IllegalEdgeChangesNothing) {
  Create("demo");
  const auto status = catalog_->UpdateJob("demo", kStart, To(v1::JOB_STATE_SUCCEEDED)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("QUEUED and cannot become SUCCEEDED"));
  EXPECT_EQ(catalog_->GetJob("demo")->job.revision(), 1);
  EXPECT_THAT(catalog_->ListEvents("demo", 0, 10).value(), SizeIs(1));
}

TEST_F(CatalogTest, RefusedDecisionChangesNothing) {
  Create("demo");
  const auto refuse = [](const JobRecord&) -> absl::StatusOr<JobChange> {
    return absl::CancelledError("no");
  };
  EXPECT_TRUE(absl::IsCancelled(catalog_->UpdateJob("demo", kStart, refuse).status()));
  EXPECT_EQ(catalog_->GetJob("demo")->job.revision(), 1);
}

TEST_F(CatalogTest, OfTwoRacingChangesExactlyOneWins) {
  for (int round = 0; round < 50; ++round) {
    const std::string id = absl::StrCat("race-", round);
    Running(id);
    absl::Status ended, paused;
    std::thread a(
        [&] { ended = catalog_->UpdateJob(id, kStart, To(v1::JOB_STATE_SUCCEEDED)).status(); });
    std::thread b(
        [&] { paused = catalog_->UpdateJob(id, kStart, To(v1::JOB_STATE_RECOVERING)).status(); });
    a.join();
    b.join();
    // RECOVERING → SUCCEEDED and SUCCEEDED → RECOVERING are both illegal.
    EXPECT_NE(ended.ok(), paused.ok()) << ended << " / " << paused;
    EXPECT_EQ(catalog_->GetJob(id)->job.state(),
              ended.ok() ? v1::JOB_STATE_SUCCEEDED : v1::JOB_STATE_RECOVERING);
  }
}

// A program that opened the catalog, such as `lorsad backup`, took itself for its last user when it
// closed it, and deleted the log with all that was committed since.
TEST_F(CatalogTest, OtherProcessesSeeThatItIsInUse) {
  Reopen();  // What looks at an existing file must not lose the lock on it.
  const std::string path = Path();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // System calls alone: other threads may have held any lock of this process.
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ::_exit(::fcntl(file, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "nobody holds a lock on " << path;
}

// A connection answered from its cache, and the server called a truncated catalog readable.
TEST_F(CatalogTest, DamageIsSeenBehindTheCaches) {
  Create("job");
  EXPECT_EQ(catalog_->CountJobs(v1::JOB_STATE_QUEUED).value(), 1);
  EXPECT_TRUE(catalog_->CheckReadable().ok());
  for (const char* suffix : {"", "-wal"}) std::filesystem::resize_file(Path() + suffix, 0);
  EXPECT_FALSE(catalog_->CheckReadable().ok());
  std::filesystem::remove(Path());
  EXPECT_TRUE(absl::IsNotFound(catalog_->CheckReadable()));
  EXPECT_FALSE(std::filesystem::exists(Path())) << "reading made a new one";
}

TEST_F(CatalogTest, ManyWritersAtOnceLoseNothing) {
  constexpr int kThreads = 16;
  constexpr int kJobs = 20;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kJobs; ++i) Create(absl::StrCat("job-", t, "-", i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  Reopen();
  EXPECT_EQ(catalog_->CountJobs(v1::JOB_STATE_QUEUED).value(), kThreads * kJobs);
}

TEST_F(CatalogTest, OneFailedWriteOfAGroupDoesNotUndoTheOthers) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      const auto status = catalog_->CreateJob(Named(absl::StrCat("job-", i % 8)), kStart).status();
      EXPECT_TRUE(status.ok() || absl::IsAlreadyExists(status)) << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(catalog_->CountJobs(v1::JOB_STATE_QUEUED).value(), 8);
}

TEST_F(CatalogTest, QueueIsFirstInFirstOutAndResumedJobsGoToTheEnd) {
  for (const char* id : {"a", "b", "c"}) Create(id);
  ASSERT_TRUE(catalog_
                  ->UpdateJob("a", kStart,
                              [](const JobRecord&) -> absl::StatusOr<JobChange> {
                                return JobChange{.reason = "TEST", .to_end_of_queue = true};
                              })
                  .ok());
  std::vector<std::string> ids;
  const auto take_two = [&](const JobRecord& job) {
    ids.push_back(job.id);
    return ids.size() < 2;
  };
  ASSERT_TRUE(catalog_->VisitQueuedJobs(take_two).ok());
  EXPECT_THAT(ids, ElementsAre("b", "c"));
}

TEST_F(CatalogTest, ListsNewestFirstInPagesAndByState) {
  for (const char* id : {"a", "b", "c"}) Create(id);
  ASSERT_TRUE(catalog_->UpdateJob("b", kStart, To(v1::JOB_STATE_CANCELLED)).ok());
  const auto ids = [&](const JobFilter& filter) {
    std::vector<std::string> ids;
    const auto jobs = catalog_->ListJobs(filter).value();
    for (const StoredJob& job : jobs) ids.push_back(job.record.id);
    return ids;
  };
  EXPECT_THAT(ids({.limit = 2}), ElementsAre("c", "b"));
  EXPECT_THAT(ids({.before = catalog_->ListJobs({})->at(1).number, .limit = 2}), ElementsAre("a"));
  EXPECT_THAT(ids({.state = v1::JOB_STATE_QUEUED}), ElementsAre("c", "a"));
}

TEST_F(CatalogTest, ActiveJobsAreThoseThatHoldASlot) {
  Create("waiting");
  Running("running");
  Running("recovering");
  ASSERT_TRUE(catalog_->UpdateJob("recovering", kStart, To(v1::JOB_STATE_RECOVERING)).ok());
  std::vector<std::string> ids;
  const auto jobs = catalog_->ActiveJobs().value();
  for (const JobRecord& job : jobs) ids.push_back(job.id);
  EXPECT_THAT(ids, ElementsAre("running", "recovering"));
}

TEST_F(CatalogTest, AttemptIsFoundByItsTokenAlsoWhenItIsOver) {
  const AttemptKey first = Running("demo");
  const AttemptKey second = Recovered("demo");
  EXPECT_EQ(second.attempt, first.attempt + 1);
  EXPECT_EQ(catalog_->FindAttempt("demo-token-1")->key.attempt, 1);
  EXPECT_EQ(catalog_->FindAttempt("demo-token-2")->key.attempt, 2);
  EXPECT_FALSE(catalog_->FindAttempt("demo-token-1")->is_current);
  EXPECT_TRUE(catalog_->FindAttempt("demo-token-2")->is_current);
  EXPECT_TRUE(absl::IsNotFound(catalog_->FindAttempt("demo-token-3").status()));
}

TEST_F(CatalogTest, WorkerAndBackoffSurviveReopening) {
  Running("demo");
  const ProcessIdentity worker{"boot", 4711, 99};
  ASSERT_TRUE(catalog_
                  ->UpdateJob("demo", kStart,
                              [&](const JobRecord&) -> absl::StatusOr<JobChange> {
                                return JobChange{.reason = "TEST",
                                                 .worker = worker,
                                                 .not_before = kStart + absl::Seconds(8),
                                                 .recoveries = 3};
                              })
                  .ok());
  Reopen();
  const JobRecord job = catalog_->GetJob("demo").value();
  EXPECT_EQ(job.worker, worker);
  EXPECT_EQ(job.not_before, kStart + absl::Seconds(8));
  EXPECT_EQ(job.recoveries, 3);
}

TEST_F(CatalogTest, OlderAttemptCanStoreNothing) {
  const AttemptKey stale = Running("demo");
  Recovered("demo");
  EXPECT_TRUE(absl::IsAborted(catalog_->PutMetrics(stale, 1, {Point(1, 0.5)})));
  EXPECT_TRUE(absl::IsAborted(catalog_->PutCheckpoint(stale, CheckpointAt(1), true, kStart)));
  EXPECT_THAT(catalog_->MetricsAfter("demo", 0, {}, 10).value().points, IsEmpty());
  EXPECT_THAT(catalog_->ListCheckpoints("demo").value(), IsEmpty());
}

TEST_F(CatalogTest, AttemptOfAnEndedJobCanStoreNothing) {
  const AttemptKey attempt = Running("demo");
  ASSERT_TRUE(catalog_->UpdateJob("demo", kStart, To(v1::JOB_STATE_SUCCEEDED)).ok());
  EXPECT_TRUE(absl::IsAborted(catalog_->PutMetrics(attempt, 1, {Point(1, 0.5)})));
}

TEST(SqliteStatusTest, OnlyAFullDiskIsToldToMakeRoom) {
  for (const int code : {SQLITE_FULL, SQLITE_IOERR_WRITE}) {
    EXPECT_THAT(std::string(SqliteStatus(code, "x").message()), HasSubstr("make room")) << code;
  }
  for (const int code : {SQLITE_IOERR, SQLITE_IOERR_READ, SQLITE_IOERR_FSYNC}) {
    EXPECT_THAT(std::string(SqliteStatus(code, "x").message()),
                HasSubstr("disk of the data folder fails"))
        << code;
  }
}

TEST_F(CatalogTest, MissingJobIsNotFoundEverywhere) {
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetJob("gone").status()));
  EXPECT_TRUE(absl::IsNotFound(catalog_->ListEvents("gone", 0, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(catalog_->ListCheckpoints("gone").status()));
  EXPECT_TRUE(absl::IsNotFound(catalog_->MetricsAfter("gone", 0, {}, 1).status()));
  EXPECT_TRUE(
      absl::IsNotFound(catalog_->UpdateJob("gone", kStart, To(v1::JOB_STATE_CANCELLED)).status()));
}

TEST_F(CatalogTest, FileThatIsNoDatabaseIsDataLoss) {
  catalog_.reset();
  std::filesystem::remove(Path() + "-wal");
  std::filesystem::remove(Path() + "-shm");
  std::FILE* file = std::fopen(Path().c_str(), "wb");
  std::fputs(std::string(8192, 'x').c_str(), file);
  std::fclose(file);
  EXPECT_TRUE(absl::IsDataLoss(Catalog::Open(Path()).status()));
}

}  // namespace
}  // namespace lorsa::server

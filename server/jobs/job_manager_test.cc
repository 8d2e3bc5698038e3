// What clients ask of jobs, and the queue.
#include "server/jobs/job_manager.h"

#include <sys/stat.h>

#include <thread>

#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using JobManagerTest = JobsTest;

TEST_F(JobManagerTest, LaunchesNoMoreJobsThanMayRunInOrderOfCreation) {
  for (const char* id : {"a", "b", "c"}) Create(id);
  Poll();
  Poll();
  EXPECT_THAT(launcher_.launched, SizeIs(1));
  EXPECT_EQ(launcher_.launched[0].ranks, 3);
  EXPECT_EQ(State("a"), v1::JOB_STATE_STARTING);
  EXPECT_EQ(State("b"), v1::JOB_STATE_QUEUED);
  FakeWorker worker = Launched();
  ASSERT_TRUE(Connect(worker).ok());
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  Poll();
  EXPECT_EQ(State("b"), v1::JOB_STATE_STARTING);
  EXPECT_EQ(State("c"), v1::JOB_STATE_QUEUED);
}

TEST_F(JobManagerTest, RunsSeveralJobsIfAllowed) {
  options_.capacity.max_running_jobs = 2;
  Restart();
  for (const char* id : {"a", "b", "c"}) Create(id);
  Poll();
  EXPECT_THAT(launcher_.launched, SizeIs(2));
}

TEST_F(JobManagerTest, BootstrapTellsTheWorkerAllAndIsPrivate) {
  Create("demo");
  Poll();
  const v1::WorkerBootstrap bootstrap = Launched().bootstrap;
  EXPECT_EQ(bootstrap.job(), "jobs/demo");
  EXPECT_EQ(bootstrap.attempt(), 1);
  EXPECT_THAT(bootstrap.token(), SizeIs(64));
  EXPECT_EQ(bootstrap.endpoint_file(), folder_ + "/endpoint");
  EXPECT_TRUE(fs_.Exists(bootstrap.staging_folder()).value());
  struct stat info;
  ASSERT_EQ(::stat(launcher_.launched[0].bootstrap_file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_THAT(launcher_.launched[0].bootstrap_file,
              HasSubstr("/jobs/demo/attempts/0001/bootstrap.textproto"));
}

TEST_F(JobManagerTest, TokenItselfIsNowhereInTheCatalog) {
  Create("demo");
  Poll();
  const std::string token = Launched().bootstrap.token();
  Restart();
  for (const char* name : {"catalog.sqlite", "catalog.sqlite-wal"}) {
    const auto bytes = ReadFile(fs_, JoinPath(folder_, name), 64 << 20);
    EXPECT_EQ(bytes.value_or("").find(token), std::string::npos) << name;
  }
}

TEST_F(JobManagerTest, CancelOfAQueuedJobIsAtOnce) {
  Create("demo");
  EXPECT_EQ(manager_->CancelJob("demo")->state(), v1::JOB_STATE_CANCELLED);
  Poll();
  EXPECT_THAT(launcher_.launched, IsEmpty());
}

TEST_F(JobManagerTest, CancelOfAStartingJobWaitsForItsWorker) {
  Create("demo");
  Poll();
  EXPECT_EQ(manager_->CancelJob("demo")->state(), v1::JOB_STATE_CANCELLING);
  FakeWorker worker = Launched();
  ASSERT_TRUE(Connect(worker).ok());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_CANCELLING);
  Poll();
  EXPECT_THAT(worker.connection->commands(), ElementsAre(v1::COMMAND_CANCEL));
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_CANCELLED).ok());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_CANCELLED);
}

TEST_F(JobManagerTest, CancelOfARunningJobAsksOncePerConnection) {
  FakeWorker worker = Run("demo");
  EXPECT_EQ(manager_->CancelJob("demo")->state(), v1::JOB_STATE_CANCELLING);
  Poll();
  Poll();
  EXPECT_THAT(worker.connection->commands(), ElementsAre(v1::COMMAND_CANCEL));
  ASSERT_TRUE(Connect(worker).ok());
  Poll();
  EXPECT_THAT(worker.connection->commands(), ElementsAre(v1::COMMAND_CANCEL));
}

TEST_F(JobManagerTest, CancelTwiceChangesNothing) {
  Run("demo");
  const int64_t revision = manager_->CancelJob("demo")->revision();
  const auto again = manager_->CancelJob("demo");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->revision(), revision);
}

TEST_F(JobManagerTest, WorkerThatDoesNotLeaveIsKilledAfterItsGrace) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(manager_->CancelJob("demo").ok());
  Poll();
  Advance(options_.cancel_grace - absl::Seconds(1));
  ASSERT_TRUE(SayHeartbeat(worker, 1).ok());
  Poll();
  EXPECT_THAT(launcher_.killed, IsEmpty());
  Advance(absl::Seconds(1));
  Poll();
  EXPECT_THAT(launcher_.killed, SizeIs(1));
  EXPECT_EQ(State("demo"), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(ReasonOf(*worker.connection->ended), "STALE_ATTEMPT");
}

TEST_F(JobManagerTest, CancelOfAPausedAndOfARecoveringJobIsAtOnce) {
  FakeWorker worker = Run("paused");
  ASSERT_TRUE(manager_->PauseJob("paused").ok());
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_PAUSED).ok());
  EXPECT_EQ(manager_->CancelJob("paused")->state(), v1::JOB_STATE_CANCELLED);
  Run("lost");
  launcher_.EndLast();
  Poll();
  ASSERT_EQ(State("lost"), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(manager_->CancelJob("lost")->state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(JobManagerTest, CancelOfAPausingJobGoesOnToCancelled) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(manager_->PauseJob("demo").ok());
  Poll();
  EXPECT_EQ(manager_->CancelJob("demo")->state(), v1::JOB_STATE_CANCELLING);
  Poll();
  EXPECT_THAT(worker.connection->commands(), ElementsAre(v1::COMMAND_PAUSE, v1::COMMAND_CANCEL));
  // The worker had paused before it saw the second command.
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_PAUSED).ok());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_CANCELLED);
}

TEST_F(JobManagerTest, EndedJobCannotBeCancelledPausedOrResumed) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  for (const auto& status :
       {manager_->CancelJob("demo").status(), manager_->PauseJob("demo").status(),
        manager_->ResumeJob("demo").status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(ReasonOf(status), "WRONG_JOB_STATE");
    EXPECT_THAT(std::string(status.message()), HasSubstr("job demo is SUCCEEDED"));
  }
}

TEST_F(JobManagerTest, PauseAndResumeGoOnBehindTheOthers) {
  FakeWorker worker = Run("first");
  Create("second");
  EXPECT_EQ(manager_->PauseJob("first")->state(), v1::JOB_STATE_PAUSING);
  Poll();
  EXPECT_THAT(worker.connection->commands(), ElementsAre(v1::COMMAND_PAUSE));
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_PAUSED).ok());
  EXPECT_EQ(State("first"), v1::JOB_STATE_PAUSED);
  EXPECT_EQ(manager_->ResumeJob("first")->state(), v1::JOB_STATE_QUEUED);
  Poll();
  EXPECT_EQ(State("second"), v1::JOB_STATE_STARTING);
  EXPECT_EQ(State("first"), v1::JOB_STATE_QUEUED);
}

TEST_F(JobManagerTest, ResumedJobIsOfferedItsCheckpoints) {
  FakeWorker worker = Run("demo");
  Publish(worker, Stage(worker, 10));
  Publish(worker, Stage(worker, 20));
  ASSERT_TRUE(manager_->PauseJob("demo").ok());
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_PAUSED).ok());
  ASSERT_TRUE(manager_->ResumeJob("demo").ok());
  worker = LaunchAndConnect();
  EXPECT_EQ(worker.attempt.attempt, 2);
  const v1::Welcome& welcome = worker.connection->messages[0].welcome();
  EXPECT_THAT(welcome.checkpoint_folders(), ElementsAre(Layout().CheckpointFolder("demo", 20),
                                                        Layout().CheckpointFolder("demo", 10)));
}

TEST_F(JobManagerTest, PauseOfAJobThatIsNotRunningIsRefused) {
  Create("demo");
  EXPECT_TRUE(absl::IsFailedPrecondition(manager_->PauseJob("demo").status()));
  Poll();
  EXPECT_TRUE(absl::IsFailedPrecondition(manager_->PauseJob("demo").status()));
}

TEST_F(JobManagerTest, RunThatEndsBeforeItSeesThePauseHasSucceeded) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(manager_->PauseJob("demo").ok());
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(JobManagerTest, CancelRacingCompletionEndsInOneFinalStateAndNoWriteIsLost) {
  for (int round = 0; round < 100; ++round) {
    const std::string id = absl::StrCat("race-", round);
    FakeWorker worker = Run(id);
    absl::Status cancelled, completed;
    std::thread client([&] { cancelled = manager_->CancelJob(id).status(); });
    std::thread process([&] { completed = SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED); });
    client.join();
    process.join();
    // Whichever came first, the run did succeed, and the worker's outcome is recorded.
    EXPECT_TRUE(completed.ok()) << completed;
    EXPECT_EQ(State(id), v1::JOB_STATE_SUCCEEDED);
    EXPECT_TRUE(cancelled.ok() || absl::IsFailedPrecondition(cancelled)) << cancelled;
  }
}

TEST_F(JobManagerTest, JobThatCannotBeLaunchedWaitsAndIsTriedAgain) {
  Create("demo");
  // A file where the job's folder should be.
  std::filesystem::create_directories(folder_ + "/jobs");
  ASSERT_TRUE(WriteFileAtomically(fs_, Layout().JobFolder("demo"), "x").ok());
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Get("demo").attempt(), 0);
  std::filesystem::remove(Layout().JobFolder("demo"));
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_QUEUED);
  Advance(absl::Seconds(5));
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_STARTING);
}

TEST_F(JobManagerTest, ThreadPollsByItself) {
  options_.poll_interval = absl::Milliseconds(1);
  Restart();
  manager_->Start();
  Create("demo");
  for (int i = 0; i < 10'000 && State("demo") == v1::JOB_STATE_QUEUED; ++i) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(State("demo"), v1::JOB_STATE_STARTING);
  manager_->Stop();
}

}  // namespace
}  // namespace lorsa::server

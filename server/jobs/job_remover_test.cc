// Deleted and expired jobs, deadlines, retries and priorities: a job's life besides its run.
#include "server/jobs/job_remover.h"

#include "absl/strings/str_join.h"
#include "server/jobs/job_file.h"
#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class JobRemoverTest : public JobsTest {
 protected:
  bool HasFolder(const std::string& id) { return fs_.Exists(Layout().JobFolder(id)).value(); }
  bool IsGone(const std::string& id) { return absl::IsNotFound(manager_->GetJob(id).status()); }
  // Until there is nothing more to do at once.
  void Tidy() {
    while (manager_->Tidy()) {
    }
  }
  void CreateWith(const std::string& id, const v1::JobPolicy& policy) {
    NewJob job{.id = id, .policy = policy};
    job.resolved_spec.mutable_training()->set_activation_set("set");
    ASSERT_TRUE(manager_->CreateJob(job).ok());
  }
  // Runs the job to its end; its process stays.
  FakeWorker Finish(const std::string& id) {
    FakeWorker worker = Run(id);
    EXPECT_EQ(Publish(worker, Stage(worker, 10)).error(), "");
    EXPECT_TRUE(SayMetrics(worker, 1, {1, 2, 3}).ok());
    EXPECT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
    return worker;
  }
  v1::JobPolicy WithDeadline(absl::Duration from_now) {
    v1::JobPolicy policy;
    policy.mutable_deadline()->set_seconds(absl::ToUnixSeconds(now_ + from_now));
    return policy;
  }
};

TEST_F(JobRemoverTest, DeletedJobIsGoneAtOnceAndItsFilesAndIdSoonAfter) {
  Finish("demo");
  launcher_.EndLast();
  ASSERT_TRUE(manager_->DeleteJob("demo", false).ok());
  EXPECT_TRUE(IsGone("demo"));
  EXPECT_TRUE(manager_->ListJobs({})->empty());
  EXPECT_TRUE(absl::IsNotFound(catalog_->ListCheckpoints("demo").status()));
  EXPECT_TRUE(absl::IsUnavailable(manager_->CreateJob({.id = "demo"}).status()));
  Tidy();
  EXPECT_FALSE(HasFolder("demo"));
  Create("demo");
  EXPECT_EQ(Get("demo").attempt(), 0);
  EXPECT_THAT(*catalog_->ListCheckpoints("demo"), IsEmpty());
  EXPECT_THAT(catalog_->MetricsAfter("demo", 0, {}, 10)->points, IsEmpty());
}

// After a restore, when the rows of the older job could not be removed at the start.
TEST_F(JobRemoverTest, TheFolderOfANewerJobWithTheIdStays) {
  Finish("demo");
  launcher_.EndLast();
  JobRecord newer = catalog_->GetJob("demo").value();
  newer.job.mutable_create_time()->set_seconds(newer.job.create_time().seconds() + 10);
  ASSERT_TRUE(manager_->DeleteJob("demo", false).ok());
  ASSERT_TRUE(WriteJobFile(Environment(), newer).ok());
  Tidy();
  EXPECT_TRUE(HasFolder("demo"));
  EXPECT_TRUE(absl::IsNotFound(catalog_->GetJob("demo").status()));
}

TEST_F(JobRemoverTest, JobThatHasNotEndedIsNotDeleted) {
  Run("demo");
  const absl::Status status = manager_->DeleteJob("demo", true);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(ReasonOf(status), "WRONG_JOB_STATE");
  EXPECT_THAT(std::string(status.message()), HasSubstr("cancel it"));
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
}

TEST_F(JobRemoverTest, PinHoldsAJobUnlessForced) {
  Finish("demo");
  ASSERT_TRUE(catalog_->PinCheckpoint("demo", AtStep(10), true).ok());
  const absl::Status status = manager_->DeleteJob("demo", false);
  EXPECT_EQ(ReasonOf(status), "PINNED_CHECKPOINT");
  EXPECT_FALSE(IsGone("demo"));
  EXPECT_TRUE(manager_->DeleteJob("demo", true).ok());
  EXPECT_TRUE(IsGone("demo"));
}

TEST_F(JobRemoverTest, FilesStayAsLongAsAWorkerLives) {
  Finish("demo");
  ASSERT_TRUE(manager_->DeleteJob("demo", false).ok());
  Tidy();
  EXPECT_TRUE(HasFolder("demo"));
  launcher_.EndLast();
  Tidy();
  EXPECT_FALSE(HasFolder("demo"));
}

TEST_F(JobRemoverTest, RemovalThatACrashCutOffIsFinishedByTheNextServer) {
  for (const bool files_are_gone : {false, true}) {
    Finish("demo");
    launcher_.EndLast();
    ASSERT_TRUE(manager_->DeleteJob("demo", false).ok());
    if (files_are_gone) {
      ASSERT_TRUE(fs_.RemoveAll(Layout().JobFolder("demo")).ok());
    }
    Restart();
    EXPECT_TRUE(IsGone("demo"));
    Tidy();
    EXPECT_FALSE(HasFolder("demo"));
    EXPECT_TRUE(catalog_->CheckJobIdIsFree("demo").ok());
  }
}

TEST_F(JobRemoverTest, LongHistoryIsRemovedInPieces) {
  FakeWorker worker = Run("demo");
  for (int batch = 0; batch < 40; ++batch) {
    std::vector<int64_t> steps;
    for (int i = 1; i <= 256; ++i) steps.push_back(256 * batch + i);
    ASSERT_TRUE(SayMetrics(worker, batch + 1, steps).ok());
  }
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  launcher_.EndLast();
  ASSERT_TRUE(manager_->DeleteJob("demo", false).ok());
  EXPECT_TRUE(manager_->Tidy());
  Create("other");  // Comes in between.
  Tidy();
  EXPECT_TRUE(catalog_->CheckJobIdIsFree("demo").ok());
}

TEST_F(JobRemoverTest, JobOutlivesItsEndByItsTtl) {
  v1::JobPolicy policy;
  policy.mutable_ttl()->set_seconds(3600);
  CreateWith("demo", policy);
  EXPECT_FALSE(Get("demo").has_expire_time());
  ASSERT_TRUE(manager_->CancelJob("demo").ok());
  EXPECT_EQ(Get("demo").expire_time().seconds(), absl::ToUnixSeconds(now_) + 3600);
  Advance(absl::Seconds(3599));
  Tidy();
  EXPECT_FALSE(IsGone("demo"));
  Advance(absl::Seconds(1));
  Tidy();
  EXPECT_TRUE(IsGone("demo"));
}

TEST_F(JobRemoverTest, PinnedCheckpointKeepsAnExpiredJob) {
  v1::JobPolicy policy;
  policy.mutable_ttl()->set_seconds(1);
  CreateWith("demo", policy);
  FakeWorker worker = LaunchAndConnect();
  ASSERT_EQ(Publish(worker, Stage(worker, 10)).error(), "");
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  launcher_.EndLast();
  ASSERT_TRUE(catalog_->PinCheckpoint("demo", AtStep(10), true).ok());
  Advance(absl::Hours(1));
  Tidy();
  EXPECT_FALSE(IsGone("demo"));
  ASSERT_TRUE(catalog_->PinCheckpoint("demo", AtStep(10), false).ok());
  Tidy();
  EXPECT_TRUE(IsGone("demo"));
}

TEST_F(JobRemoverTest, RetryTakesTheExpiryBack) {
  v1::JobPolicy policy;
  policy.mutable_ttl()->set_seconds(60);
  CreateWith("demo", policy);
  FakeWorker worker = LaunchAndConnect();
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_FAILED).ok());
  EXPECT_TRUE(Get("demo").has_expire_time());
  ASSERT_TRUE(manager_->RetryJob("demo").ok());
  EXPECT_FALSE(Get("demo").has_expire_time());
  Advance(absl::Hours(1));
  Tidy();
  EXPECT_FALSE(IsGone("demo"));
}

TEST_F(JobRemoverTest, RetriedJobRunsAgainWithAllItsRecoveries) {
  FakeWorker worker = Run("demo");
  launcher_.EndLast();
  Poll();
  Advance(options_.max_backoff);
  worker = LaunchAndConnect();
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_FAILED).ok());
  EXPECT_EQ(manager_->RetryJob("demo")->state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Get("demo").reason(), "RETRIED");
  EXPECT_FALSE(Get("demo").has_end_time());
  EXPECT_EQ(catalog_->GetJob("demo")->recoveries, 0);
  LaunchAndConnect();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Get("demo").attempt(), 3);
}

TEST_F(JobRemoverTest, OnlyAFailedJobIsRetried) {
  Finish("demo");
  const absl::Status status = manager_->RetryJob("demo").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(ReasonOf(status), "WRONG_JOB_STATE");
}

TEST_F(JobRemoverTest, DeadlineEndsAQueuedJobAtOnce) {
  Run("running");
  CreateWith("demo", WithDeadline(absl::Seconds(10)));
  Advance(absl::Seconds(9));
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_QUEUED);
  Advance(absl::Seconds(1));
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("demo").reason(), "DEADLINE");
}

TEST_F(JobRemoverTest, DeadlineStopsAWorkerInGoodOrderAndTheJobFailed) {
  CreateWith("demo", WithDeadline(absl::Seconds(10)));
  FakeWorker worker = LaunchAndConnect();
  Advance(absl::Seconds(10));
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_CANCELLING);
  Poll();
  EXPECT_THAT(worker.connection->commands(), ::testing::ElementsAre(v1::COMMAND_CANCEL));
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_CANCELLED).ok());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("demo").reason(), "DEADLINE");
  EXPECT_THAT(Get("demo").message(), HasSubstr("had not ended by its deadline"));
}

TEST_F(JobRemoverTest, WorkerThatIgnoresTheDeadlineIsKilled) {
  CreateWith("demo", WithDeadline(absl::Seconds(10)));
  LaunchAndConnect();
  Advance(absl::Seconds(10));
  Poll();
  Advance(options_.cancel_grace);
  Poll();
  EXPECT_THAT(launcher_.killed, SizeIs(1));
  EXPECT_EQ(State("demo"), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("demo").reason(), "DEADLINE");
}

TEST_F(JobRemoverTest, JobThatSucceedsBeforeItSeesTheDeadlineSucceeded) {
  CreateWith("demo", WithDeadline(absl::Seconds(10)));
  FakeWorker worker = LaunchAndConnect();
  Advance(absl::Seconds(10));
  Poll();
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(JobRemoverTest, RetryAfterTheDeadlineIsWithoutIt) {
  CreateWith("demo", WithDeadline(absl::Seconds(10)));
  Advance(absl::Seconds(10));
  Poll();
  ASSERT_EQ(Get("demo").reason(), "DEADLINE");
  ASSERT_TRUE(manager_->RetryJob("demo").ok());
  EXPECT_FALSE(Get("demo").policy().has_deadline());
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_STARTING);
}

TEST_F(JobRemoverTest, HigherPriorityStartsFirstAndOfEqualOnesTheOlder) {
  v1::JobPolicy high, low;
  high.set_priority(5);
  low.set_priority(-5);
  FakeWorker running = Run("running");
  CreateWith("low", low);
  Create("middle");
  CreateWith("high", high);
  CreateWith("high-too", high);
  std::vector<std::string> order;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(SayOutcome(running, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
    running = LaunchAndConnect();
    order.push_back(running.attempt.job_id);
  }
  EXPECT_EQ(absl::StrJoin(order, ", "), "high, high-too, middle, low");
}

}  // namespace
}  // namespace lorsa::server

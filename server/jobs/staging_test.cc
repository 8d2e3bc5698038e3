#include "server/jobs/staging.h"

#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using StagingTest = JobsTest;

// Partial checkpoints and copies of the layer's weights of lost attempts stayed for ever.
TEST_F(StagingTest, NextAttemptRemovesWhatEarlierOnesLeftStaged) {
  FakeWorker first = Run("demo");
  Stage(first, 10);
  FakeWorker second = LoseAndRecover();
  EXPECT_FALSE(fs_.Exists(first.bootstrap.staging_folder()).value());
  EXPECT_TRUE(fs_.Exists(second.bootstrap.staging_folder()).value());
  EXPECT_TRUE(fs_.Exists(Layout().BootstrapFile("demo", 1)).value());
}

// A copy of the layer's weights stayed for as long as the job that had ended.
TEST_F(StagingTest, AJobThatEndsLeavesNothingStaged) {
  FakeWorker worker = Run("demo");
  Stage(worker, 10);
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  EXPECT_FALSE(fs_.Exists(worker.bootstrap.staging_folder()).value());
  EXPECT_TRUE(fs_.Exists(Layout().BootstrapFile("demo", 1)).value());
}

// What could not be removed when the next attempt began, for want of a descriptor, stayed.
TEST_F(StagingTest, AJobThatEndsLeavesNothingStagedByEarlierAttempts) {
  FakeWorker first = Run("demo");
  FakeWorker second = LoseAndRecover();
  Stage(first, 10);
  ASSERT_TRUE(SayOutcome(second, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  EXPECT_FALSE(fs_.Exists(first.bootstrap.staging_folder()).value());
}

// A worker that was killed while it wrote its outcome left a part of it for ever.
TEST_F(StagingTest, NextAttemptRemovesAnOutcomeThatWasNotFinished) {
  FakeWorker first = Run("demo");
  const std::string unfinished = first.bootstrap.outcome_file() + ".tmp";
  ASSERT_TRUE(WriteFileAtomically(fs_, unfinished, "kind: KIND_SUC").ok());
  LoseAndRecover();
  EXPECT_FALSE(fs_.Exists(unfinished).value());
}

TEST_F(StagingTest, AServerThatStartsRemovesWhatEndedJobsHaveStaged) {
  FakeWorker ended = Run("ended");
  ASSERT_TRUE(SayOutcome(ended, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  launcher_.EndLast();
  FakeWorker running = Run("running");
  Stage(ended, 10);  // as after a crash before it was removed
  Stage(running, 10);
  Restart();
  ASSERT_TRUE(AdoptData().ok());
  EXPECT_FALSE(fs_.Exists(ended.bootstrap.staging_folder()).value());
  EXPECT_TRUE(fs_.Exists(running.bootstrap.staging_folder()).value());
}

}  // namespace
}  // namespace lorsa::server

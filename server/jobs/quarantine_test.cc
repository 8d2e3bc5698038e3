// Jobs whose set is found damaged under them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/jobs/attempt_endings.h"
#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using QuarantineTest = JobsTest;

TEST_F(QuarantineTest, TheJobEndsUpPausedWithTheReasonHoweverItsWorkerLeaves) {
  const auto ends = std::vector<std::pair<std::string, std::function<void(FakeWorker&)>>>{
      {"paused", [this](FakeWorker& w) { (void)SayOutcome(w, v1::WorkerOutcome::KIND_PAUSED); }},
      {"failed", [this](FakeWorker& w) { (void)SayOutcome(w, v1::WorkerOutcome::KIND_FAILED); }},
      {"lost", [this](FakeWorker&) {
         Advance(options_.silence_timeout + absl::Seconds(1));
         Poll();
       }}};
  for (const auto& [id, leave] : ends) {
    FakeWorker worker = Run(id);
    ASSERT_TRUE(manager_->PauseForQuarantine(id, "shard-00003.h5 is damaged").ok());
    EXPECT_EQ(State(id), v1::JOB_STATE_PAUSING);
    leave(worker);
    EXPECT_EQ(State(id), v1::JOB_STATE_PAUSED) << id;
    EXPECT_EQ(Get(id).reason(), kSetQuarantined) << id;
    EXPECT_EQ(Get(id).message(), "shard-00003.h5 is damaged") << id;
    ASSERT_TRUE(manager_->CancelJob(id).ok());
  }
}

TEST_F(QuarantineTest, ARunThatSucceededAllTheSameHas) {
  FakeWorker worker = Run("job");
  ASSERT_TRUE(manager_->PauseForQuarantine("job", "damaged").ok());
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  EXPECT_EQ(State("job"), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(QuarantineTest, OnlyARunningJobIsPaused) {
  Create("job");
  EXPECT_TRUE(absl::IsFailedPrecondition(manager_->PauseForQuarantine("job", "damaged").status()));
  EXPECT_EQ(State("job"), v1::JOB_STATE_QUEUED);
}

}  // namespace
}  // namespace lorsa::server

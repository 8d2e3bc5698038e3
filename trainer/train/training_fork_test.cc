// Runs that go on from a checkpoint of another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scratch_folder.h"
#include "trainer/train/batch_reader.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/testing/fake_host.h"
#include "trainer/train/testing/poisoned_kernel.h"
#include "trainer/train/training_run.h"

namespace lorsa::trainer {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// The other run has 20 steps and a checkpoint each 5.
class TrainingForkTest : public testing::Test {
 protected:
  FakeHost NewHost(const std::string& name) {
    return FakeHost(set_, config_.seed, scratch_.Path(name));
  }
  FakeHost RunOther() {
    FakeHost host = NewHost("other");
    EXPECT_TRUE(RunTraining(config_, host, {}).ok());
    return host;
  }

  const ScratchFolder scratch_;
  PosixFileSystem fs_;
  SyntheticSet set_ = MakeSyntheticSet(512);  // no batch comes twice
  TrainConfig config_ = SyntheticConfig(set_);
};

TEST_F(TrainingForkTest, GoesBeyondTheEndOfTheOtherAndIsRefittedAtItsOwn) {
  config_.refit_tokens = config_.total_tokens;
  const FakeHost other = RunOther();
  config_.total_tokens *= 2;
  FakeHost host = NewHost("fork");
  const auto outcome = RunTraining(config_, host, {other.CheckpointFolder(20)}, {.first_step = 20});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->step, 40);
  EXPECT_EQ(host.published.front().step, 25);
  EXPECT_EQ(host.Points(MetricKind::kTraining).front().step, 21);
  const auto midway = ReadCheckpoint(fs_, host.CheckpointFolder(25), at::kCPU);
  ASSERT_TRUE(midway.ok()) << midway.status();
  EXPECT_FALSE(midway->state.counts.refitted);
  EXPECT_TRUE(ReadCheckpoint(fs_, host.CheckpointFolder(40), at::kCPU)->state.counts.refitted);
}

// Where a checkpoint comes from another machine, one that cannot be had just now is no damaged one.
TEST_F(TrainingForkTest, DoesNotPassOverACheckpointThatCannotBeFetched) {
  const FakeHost other = RunOther();
  FakeHost host = NewHost("fork");
  host.on_fetch = [](const std::string&) { return absl::FailedPreconditionError("cut off"); };
  const auto status = RunTraining(config_, host, other.CheckpointFolders()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(host.published, IsEmpty());
  EXPECT_THAT(host.damaged, IsEmpty());
}

TEST_F(TrainingForkTest, WaitsForRoomToFetchAndPassesOverWhatIsGone) {
  const FakeHost other = RunOther();
  FakeHost host = NewHost("fork");
  int tries = 0;
  host.on_fetch = [&](const std::string& folder) {
    if (folder == other.CheckpointFolder(20)) return absl::NotFoundError("deleted meanwhile");
    return ++tries < 3 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  const auto outcome = RunTraining(config_, host, other.CheckpointFolders());
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(tries, 3);
  EXPECT_THAT(host.damaged, testing::ElementsAre(20));
  EXPECT_EQ(host.Points(MetricKind::kTraining).front().step, 16);
}

// The full disk was taken for the reason of the end, and the job FAILED when it was paused.
TEST_F(TrainingForkTest, AStopWhileThereIsNoRoomToFetchIsAStop) {
  const FakeHost other = RunOther();
  FakeHost host = NewHost("fork");
  StopRequest stop = StopRequest::kNone;
  host.on_poll = [&] { return stop; };
  host.on_fetch = [](const std::string&) { return absl::ResourceExhaustedError("full"); };
  host.on_sleep = [&] { stop = StopRequest::kPause; };
  const auto outcome = RunTraining(config_, host, other.CheckpointFolders());
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->kind, RunOutcome::Kind::kPaused);
  EXPECT_THAT(host.published, IsEmpty());
}

TEST_F(TrainingForkTest, DoesNotBeginAnewWithoutItsCheckpoint) {
  FakeHost host = NewHost("fork");
  const auto status = RunTraining(config_, host, {}, {.first_step = 10}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 10"));
  EXPECT_THAT(host.published, IsEmpty());
}

// It was no checkpoint of the new schedule, and a NaN before the first of that ended the run.
TEST_F(TrainingForkTest, GoesBackToTheCheckpointItCameFrom) {
  const FakeHost other = RunOther();
  config_.checkpoint_interval_tokens = 17 * config_.tokens_per_step();
  config_.evaluation_interval_tokens = config_.checkpoint_interval_tokens;
  FakeHost probe = NewHost("probe");
  BatchReader reader(config_, *probe.OpenTraining(12 * config_.sequences_per_step), at::kCPU);
  const at::Tensor poisoned = reader.Next(config_.sequences_per_step)->batch.x;
  const auto choose = [&](const at::Tensor& x) {
    return poisoned.equal(x) ? Poison::kLoss : Poison::kNothing;
  };
  FakeHost host = NewHost("fork");
  const auto outcome = RunTraining(config_, host, {other.CheckpointFolder(10)},
                                   {.decorate = Poisoned(choose), .first_step = 10});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->step, 20);
  ASSERT_FALSE(host.warnings.empty());
  EXPECT_THAT(host.warnings[0], HasSubstr("goes back to step 10"));
}

}  // namespace
}  // namespace lorsa::trainer

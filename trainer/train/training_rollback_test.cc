// What a run does when a number is not finite.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>

#include "base/scratch_folder.h"
#include "trainer/train/batch_reader.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/testing/fake_host.h"
#include "trainer/train/testing/poisoned_kernel.h"
#include "trainer/train/training_run.h"

namespace lorsa::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A checkpoint each 5 steps of 20, an evaluation each 10.
class TrainingRollbackTest : public testing::Test {
 protected:
  FakeHost NewHost(const std::string& name) {
    return FakeHost(set_, config_.seed, scratch_.Path(name));
  }

  // `poison` for the training batches of these steps, whenever they come.
  PoisonedKernel::Chooser PoisonSteps(const std::set<int64_t>& steps, Poison poison) {
    FakeHost probe = NewHost("probe");
    std::vector<at::Tensor> batches;
    for (const int64_t step : steps) {
      BatchReader reader(config_, *probe.OpenTraining((step - 1) * config_.sequences_per_step),
                         at::kCPU);
      batches.push_back(reader.Next(config_.sequences_per_step)->batch.x);
    }
    return [batches, poison](const at::Tensor& x) {
      for (const at::Tensor& batch : batches) {
        if (batch.equal(x)) return poison;
      }
      return Poison::kNothing;
    };
  }

  absl::StatusOr<RunOutcome> Run(FakeHost& host, const PoisonedKernel::Chooser& poison) {
    return RunTraining(config_, host, host.CheckpointFolders(), {.decorate = Poisoned(poison)});
  }

  // Kills: an exception out of the host ends the run as a crash would, with nothing written after.
  struct Killed : std::exception {};

  std::string FileOf(const FakeHost& host, int64_t step, const std::string& name) {
    return ReadFile(fs_, JoinPath(host.CheckpointFolder(step), name), 1 << 20).value_or("");
  }

  void ExpectSameCheckpoint(const FakeHost& a, const FakeHost& b, int64_t step) {
    for (const char* file :
         {"lorsa.safetensors", "state.safetensors", "config.json", "state.json"}) {
      EXPECT_THAT(FileOf(a, step, file), Not(IsEmpty()));
      EXPECT_EQ(FileOf(a, step, file), FileOf(b, step, file)) << "step " << step << " " << file;
    }
  }

  const ScratchFolder scratch_;
  PosixFileSystem fs_;
  SyntheticSet set_ = MakeSyntheticSet(256);  // 128 for training: no batch comes twice
  TrainConfig config_ = SyntheticConfig(set_);
};

TEST_F(TrainingRollbackTest, TheRunGoesBackHalvesTheLearningRateAndLeavesTheBatchOut) {
  for (const auto& [poison, what] : {std::pair(Poison::kLoss, "The loss is NaN or Inf"),
                                     std::pair(Poison::kGradient, "The gradient of W_V is NaN"),
                                     std::pair(Poison::kWeights, "W_O is NaN or Inf")}) {
    FakeHost clean = NewHost("clean");
    ASSERT_TRUE(Run(clean, PoisonSteps({}, poison)).ok());
    FakeHost host = NewHost("a");
    const auto outcome = Run(host, PoisonSteps({13}, poison));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->kind, RunOutcome::Kind::kSucceeded);
    EXPECT_EQ(outcome->step, 20);
    EXPECT_EQ(outcome->tokens, config_.total_tokens);
    ASSERT_EQ(host.warnings.size(), 1);
    EXPECT_THAT(host.warnings[0], HasSubstr(what));
    EXPECT_THAT(host.warnings[0], HasSubstr("at step 13, on sequences "));
    EXPECT_THAT(host.warnings[0], HasSubstr("goes back to step 10"));

    std::map<int64_t, MetricPoint> expected, points;  // the newest of a step counts
    for (const MetricPoint& p : clean.Points(MetricKind::kTraining)) expected[p.step] = p;
    for (const MetricPoint& p : host.Points(MetricKind::kTraining)) points[p.step] = p;
    EXPECT_EQ(points.size(), 19);
    EXPECT_FALSE(points.contains(13));
    for (auto& [step, point] : points) {
      const double factor = step > 10 ? 0.5 : 1;
      EXPECT_EQ(point.values.at("learning_rate"),
                factor * expected[step].values.at("learning_rate"));
      EXPECT_EQ(point.values.at("rollbacks"), step > 10 ? 1 : 0);
    }
    EXPECT_EQ(points[11].values.at("loss"), expected[11].values.at("loss"));
    EXPECT_NE(points[12].values.at("loss"), expected[12].values.at("loss"));
    const auto checkpoint = ReadCheckpoint(fs_, host.CheckpointFolder(20), at::kCPU);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_THAT(checkpoint->state.counts.rollbacks,
                ElementsAre(Rollback{.failed_step = 13, .to_step = 10}));
    EXPECT_EQ(checkpoint->state.counts.skipped_batches, 1);
    EXPECT_EQ(checkpoint->state.adam.steps, 19);
  }
}

TEST_F(TrainingRollbackTest, AfterTheLastRollbackTheRunFailsWithStepTensorAndSequences) {
  config_.max_rollbacks = 2;
  FakeHost host = NewHost("a");
  const auto outcome = Run(host, PoisonSteps({7, 12, 13}, Poison::kGradient));
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kAborted) << outcome.status();
  EXPECT_THAT(std::string(outcome.status().message()),
              HasSubstr("The gradient of W_V is NaN or Inf at step 13, on sequences "));
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("went back 2 times"));
  EXPECT_EQ(host.warnings.size(), 2);
  EXPECT_EQ(host.published.back().step, 10);
  // A retry knows how often the run went back.
  EXPECT_EQ(Run(host, PoisonSteps({7, 12, 13}, Poison::kGradient)).status(), outcome.status());
}

TEST_F(TrainingRollbackTest, WithoutRollbacksTheFirstNanEndsTheRun) {
  config_.max_rollbacks = 0;
  FakeHost host = NewHost("a");
  EXPECT_TRUE(absl::IsAborted(Run(host, PoisonSteps({3}, Poison::kLoss)).status()));
  EXPECT_THAT(host.warnings, IsEmpty());
}

TEST_F(TrainingRollbackTest, AHeldOutErrorThatIsNotFiniteCountsAgainstTheLastStep) {
  FakeHost host = NewHost("a");
  int evaluations = 0;
  const int64_t held_out_batches = 128 / config_.sequences_per_step;
  const int64_t sample_batches = 128 / config_.sequences_per_step;  // of the initialisation
  const auto outcome = Run(host, [&](const at::Tensor&) {
    // Steps ask as well; the second evaluation comes after 10 of them.
    const bool second = ++evaluations > sample_batches + held_out_batches + 10 &&
                        evaluations <= sample_batches + 2 * held_out_batches + 10;
    return second ? Poison::kReconstruction : Poison::kNothing;
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_EQ(host.warnings.size(), 1);
  EXPECT_THAT(host.warnings[0], HasSubstr("The held-out error is NaN or Inf at step 10"));
  const auto checkpoint = ReadCheckpoint(fs_, host.CheckpointFolder(20), at::kCPU);
  EXPECT_THAT(checkpoint->state.counts.rollbacks,
              ElementsAre(Rollback{.failed_step = 10, .to_step = 5}));
}

TEST_F(TrainingRollbackTest, BeforeTheFirstStepThereIsNothingToGoBackTo) {
  FakeHost host = NewHost("a");
  const auto outcome = Run(host, [](const at::Tensor&) { return Poison::kReconstruction; });
  EXPECT_FALSE(outcome.ok());
  EXPECT_THAT(host.published, IsEmpty());
}

// Killed at any moment of a run with rollbacks, and paused between: the same bits at the end.
TEST_F(TrainingRollbackTest, KilledAndPausedAtRandomMomentsItEndsWithTheSameBits) {
  const auto poison = PoisonSteps({4, 13, 18}, Poison::kGradient);
  FakeHost whole = NewHost("whole");
  ASSERT_TRUE(Run(whole, poison).ok());
  EXPECT_EQ(whole.warnings.size(), 3);
  std::mt19937 random(11);
  FakeHost host = NewHost("killed");
  int ends = 0;
  while (true) {
    ASSERT_LT(++ends, 200);
    // Of polls, metrics and warnings; a warning comes after its rollback is written.
    std::atomic<int> left = 1 + static_cast<int>(random() % 60);
    const bool pause = random() % 3 == 0;
    // A kill while a checkpoint is written or published in the background, or just after it was.
    const bool in_background = random() % 2 == 0;
    host.on_publish = [&](const StagedCheckpoint&) {
      if (!pause && in_background && left < 30) throw Killed();
      return absl::OkStatus();
    };
    host.on_poll = [&] {
      if (--left > 0 || (!pause && in_background)) return StopRequest::kNone;
      if (!pause) throw Killed();
      return StopRequest::kPause;
    };
    const auto outcome = Run(host, poison);
    if (!outcome.ok()) continue;  // killed
    if (outcome->kind == RunOutcome::Kind::kSucceeded) break;
  }
  EXPECT_GT(ends, 3);
  for (const int64_t step : {5, 10, 15, 20}) ExpectSameCheckpoint(whole, host, step);
}

// The moments that a random one seldom meets: before and after the list of rollbacks is durable.
TEST_F(TrainingRollbackTest, KilledAroundTheWriteOfTheRollbackItEndsWithTheSameBits) {
  const auto poison = PoisonSteps({13}, Poison::kLoss);
  FakeHost whole = NewHost("whole");
  ASSERT_TRUE(Run(whole, poison).ok());
  for (const bool written : {false, true}) {
    FakeHost host = NewHost("killed");
    // An extra checkpoint at step 12, of the branch that is given up.
    host.on_poll = [&] {
      return host.Points(MetricKind::kTraining).size() == 12 ? StopRequest::kPause
                                                             : StopRequest::kNone;
    };
    ASSERT_EQ(Run(host, poison)->kind, RunOutcome::Kind::kPaused);
    ASSERT_EQ(host.published.back().step, 12);
    host.on_poll = [] { return StopRequest::kNone; };
    host.on_warning = [] { throw Killed(); };
    ASSERT_FALSE(Run(host, poison).ok());
    if (!written) {
      ASSERT_TRUE(fs_.Remove(host.rollbacks_file()).ok());
    }
    host.on_warning = [] {};
    const auto outcome = Run(host, poison);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->kind, RunOutcome::Kind::kSucceeded);
    for (const int64_t step : {15, 20}) ExpectSameCheckpoint(whole, host, step);
  }
}

TEST_F(TrainingRollbackTest, TheHostKeepsTheListBeforeTheRunGoesOnByIt) {
  FakeHost host = NewHost("a");
  size_t points = 0;
  host.on_keep_rollbacks = [&] {
    EXPECT_TRUE(fs_.Exists(host.rollbacks_file()).value());
    points = host.Points(MetricKind::kTraining).size();
    return absl::FailedPreconditionError("cut off");
  };
  const absl::Status status = Run(host, PoisonSteps({13}, Poison::kLoss)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(points, 12);
  EXPECT_EQ(host.Points(MetricKind::kTraining).size(), points);
}

TEST_F(TrainingRollbackTest, ADamagedListOfRollbacksEndsTheRunByName) {
  FakeHost host = NewHost("a");
  ASSERT_TRUE(WriteFileAtomically(fs_, host.rollbacks_file(), "{").ok());
  const absl::Status status = Run(host, PoisonSteps({}, Poison::kLoss)).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("rollbacks.json"));
}

}  // namespace
}  // namespace lorsa::trainer

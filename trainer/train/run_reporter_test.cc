// The metrics of a step, on numbers worked out by hand (docs/metrics.md).
#include "trainer/train/run_reporter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/scratch_folder.h"
#include "trainer/train/testing/fake_host.h"

namespace lorsa::trainer {
namespace {

class RunReporterTest : public testing::Test {
 protected:
  SyntheticSet set_ = MakeSyntheticSet(160);
  TrainConfig config_ = SyntheticConfig(set_);  // 20 steps of 24 tokens, an evaluation each 10
  const ScratchFolder scratch_;
  FakeHost host_{set_, 0, scratch_.path()};
  RunReporter reporter_{config_, host_};
};

TEST_F(RunReporterTest, AStepIsReportedByTheNamesOfTheDocumentation) {
  const TrainingCounts counts{.step = 7,
                              .sequences_consumed = 28,
                              .skipped_batches = 2,
                              .rollbacks = {{.failed_step = 5, .to_step = 0}}};
  reporter_.Step({.loss = 8,
                  .l0 = 2.5,
                  .gradient_norm = 3,
                  .learning_rate = 0.01,
                  .update_ratio = 0.001,
                  .fvu = 0.25,
                  .dense_fraction = 0.125,
                  .activation_mean = 0.5,
                  .activation_max = 4},
                 {.elapsed = absl::Seconds(2), .waited = absl::Milliseconds(10)}, counts);
  ASSERT_EQ(host_.metrics.size(), 1);
  const MetricPoint& point = host_.metrics[0];
  EXPECT_EQ(point.step, 7);
  EXPECT_EQ(point.tokens, 28 * 6);
  const double scale = config_.output_scale();
  const std::map<std::string, double> expected = {{"loss", 8},
                                                  {"mse", 8 / (scale * scale)},
                                                  {"fvu", 0.25},
                                                  {"explained_variance", 0.75},
                                                  {"l0", 2.5},
                                                  {"dense_fraction", 0.125},
                                                  {"activation_mean", 0.5},
                                                  {"activation_max", 4},
                                                  {"gradient_norm", 3},
                                                  {"learning_rate", 0.01},
                                                  {"update_ratio", 0.001},
                                                  {"tokens_per_second", 12},
                                                  {"data_wait_fraction", 0.005},
                                                  {"memory_bytes", 1 << 20},
                                                  {"peak_memory_bytes", 2 << 20},
                                                  {"skipped_batches", 2},
                                                  {"rollbacks", 1}};
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(point.values.contains(name)) << name;
    EXPECT_DOUBLE_EQ(point.values.at(name), value) << name;
  }
}

TEST_F(RunReporterTest, WhatIsNotFiniteIsLeftOut) {
  reporter_.Step({.loss = 8, .fvu = std::numeric_limits<double>::quiet_NaN()},
                 {.elapsed = absl::Seconds(1)}, {.step = 1});
  EXPECT_FALSE(host_.metrics[0].values.contains("fvu"));
  EXPECT_TRUE(host_.metrics[0].values.contains("loss"));
}

TEST_F(RunReporterTest, TheTimeLeftCountsStepsAndEvaluations) {
  TrainingCounts counts;
  reporter_.Evaluation({}, absl::Seconds(30), counts);
  EXPECT_FALSE(reporter_.Remaining(counts).has_value());
  for (counts.step = 1; counts.step <= 5; ++counts.step) {
    // The first two, which are slow, do not count.
    reporter_.Step({}, {.elapsed = absl::Seconds(counts.step <= 2 ? 100 : 4)}, counts);
  }
  counts.step = 5;
  // 15 steps and the evaluations at 10 and 20.
  EXPECT_EQ(reporter_.Remaining(counts), absl::Seconds(15 * 4 + 2 * 30));
  counts.step = 10;
  EXPECT_EQ(reporter_.Remaining(counts), absl::Seconds(10 * 4 + 30));
  counts.step = 19;
  EXPECT_EQ(reporter_.Remaining(counts), absl::Seconds(4 + 30));
  reporter_.Phase("training", counts);
  EXPECT_EQ(host_.progress.back().remaining_seconds, 34);
}

TEST_F(RunReporterTest, TheTimeLeftCountsTheRefit) {
  TrainingCounts counts;
  reporter_.Evaluation({}, absl::Seconds(32), counts);  // of 128 sequences
  for (counts.step = 1; counts.step <= 19; ++counts.step) {
    reporter_.Step({}, {.elapsed = absl::Seconds(4)}, counts);
  }
  counts.step = 19;
  // 16 sequences at 1.5 times the time, and an evaluation that decides.
  config_.refit_tokens = 16 * 6;
  EXPECT_EQ(reporter_.Remaining(counts), absl::Seconds(4 + 32 + 6 + 32));
  config_.refit_tokens = 1'000'000;  // no more than the 32 that there are
  EXPECT_EQ(reporter_.Remaining(counts), absl::Seconds(4 + 32 + 12 + 32));
  config_.total_tokens = 5 * 4 * 6;  // of 5 steps, 20 sequences
  counts.step = 4;
  EXPECT_EQ(reporter_.Remaining(counts), absl::Seconds(4 + 32 + 7.5 + 32));
  counts.refitted = true;
  EXPECT_EQ(reporter_.Remaining(counts), absl::Seconds(4 + 32));
}

}  // namespace
}  // namespace lorsa::trainer

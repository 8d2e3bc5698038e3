// The metrics of docs/metrics.md on numbers worked out by hand.
#include "trainer/train/evaluation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace lorsa::trainer {
namespace {

constexpr int64_t kHeads = 4;
constexpr double kOutputScale = 2;

struct Example {
  Batch batch;
  ForwardResult forward;
};

// One sequence of 3 positions, d = 2, K = 2; the last position is masked and full of nonsense.
//   y  (1,0) (3,0)   mean (2,0), Σ‖y−ȳ‖² = 2
//   ŷ  (1,1) (3,0)   squared errors 1, 0
// Heads 0 and 1 are active at the first target, 1 at the second.
Example FirstBatch() {
  Example e;
  e.batch.y = at::tensor({1.f, 0.f, 3.f, 0.f, 9.f, 9.f}).view({1, 3, 2});
  e.batch.mask = at::tensor({1, 1, 0}).to(at::kBool).view({1, 3});
  e.forward.reconstruction = at::tensor({1.f, 1.f, 3.f, 0.f, -5.f, 7.f}).view({1, 3, 2});
  e.forward.activations.heads = at::tensor({0, 1, 1, 2, 2, 3}).to(at::kLong).view({3, 2});
  e.forward.activations.values = at::tensor({.5f, .2f, .4f, 0.f, 8.f, 8.f}).view({3, 2});
  return e;
}

//   y  (0,2) (0,−2)  mean (0,0), Σ‖y−ȳ‖² = 8
//   ŷ  (0,0) (0,−4)  squared errors 4, 4; the first has no direction: cosine 0
Example SecondBatch() {
  Example e;
  e.batch.y = at::tensor({0.f, 2.f, 0.f, -2.f}).view({1, 2, 2});
  e.batch.mask = at::ones({1, 2}, at::kBool);
  e.forward.reconstruction = at::tensor({0.f, 0.f, 0.f, -4.f}).view({1, 2, 2});
  e.forward.activations.heads = at::tensor({1, 2, 1, 2}).to(at::kLong).view({2, 2});
  e.forward.activations.values = at::tensor({-1.f, 0.f, 1.f, 0.f}).view({2, 2});
  return e;
}

std::map<std::string, double> MetricsOfBoth() {
  EvaluationSums sums(kHeads, kOutputScale);
  for (const Example& e : {FirstBatch(), SecondBatch()}) sums.Add(e.batch, e.forward);
  const auto metrics = sums.Metrics();
  EXPECT_TRUE(metrics.ok()) << metrics.status();
  return metrics.value_or(std::map<std::string, double>());
}

TEST(EvaluationTest, FvuComparesWithTheMeanOfAllTargets) {
  // ȳ = (1, 0): Σ‖y−ȳ‖² = 0 + 4 + 5 + 5 = 14; Σ‖y−ŷ‖² = 9.
  EXPECT_NEAR(MetricsOfBoth().at("fvu"), 9.0 / 14, 1e-12);
}

TEST(EvaluationTest, PredictingTheMeanGivesFvuOne) {
  Example e = SecondBatch();
  e.forward.reconstruction.zero_();
  EvaluationSums sums(kHeads, kOutputScale);
  sums.Add(e.batch, e.forward);
  EXPECT_NEAR(sums.Metrics()->at("fvu"), 1, 1e-12);
}

TEST(EvaluationTest, ExplainedVarianceIsAveragedOverBatches) {
  // 1 − 1/2 and 1 − 8/8.
  EXPECT_NEAR(MetricsOfBoth().at("explained_variance"), 0.25, 1e-12);
}

TEST(EvaluationTest, ExplainedVarianceLegacyIsAveragedOverTargets) {
  // Ratios 1/1, 0/1, 4/4, 4/4.
  EXPECT_NEAR(MetricsOfBoth().at("explained_variance_legacy"), 1 - 3.0 / 4, 1e-12);
}

TEST(EvaluationTest, TargetsAtTheirBatchMeanAreLeftOutOfTheLegacyRatio) {
  Example e = FirstBatch();
  e.batch.y = at::tensor({1.f, 0.f, 3.f, 0.f, 2.f, 0.f}).view({1, 3, 2});
  e.batch.mask.fill_(true);                  // mean (2,0): the third target has no variance
  e.forward.reconstruction = e.batch.y + 1;  // squared errors 2, 2, 2
  EvaluationSums sums(kHeads, kOutputScale);
  sums.Add(e.batch, e.forward);
  EXPECT_NEAR(sums.Metrics()->at("explained_variance_legacy"), -1, 1e-12);
}

TEST(EvaluationTest, LossIsInScaledAndMseInOriginalUnits) {
  EXPECT_NEAR(MetricsOfBoth().at("loss"), 9.0 / 4, 1e-12);
  EXPECT_NEAR(MetricsOfBoth().at("mse"), 9.0 / 4 / 4, 1e-12);
}

TEST(EvaluationTest, CosineIsTheMeanOverTargets) {
  EXPECT_NEAR(MetricsOfBoth().at("cosine"), (1 / std::sqrt(2.0) + 1 + 0 + 1) / 4, 1e-12);
}

TEST(EvaluationTest, ActivityCountsNonZeroValuesAtTargets) {
  const auto metrics = MetricsOfBoth();
  EXPECT_EQ(metrics.at("targets"), 4);
  EXPECT_NEAR(metrics.at("l0"), 5.0 / 4, 1e-12);
  EXPECT_NEAR(metrics.at("activation_mean"), (.5 + .2 + .4 + 1 + 1) / 5, 1e-7);
  EXPECT_EQ(metrics.at("activation_max"), 1);
  // Head 2 is chosen with value 0, head 3 only at the masked position: both are dead.
  EXPECT_NEAR(metrics.at("dead_fraction"), 2.0 / 4, 1e-12);
  EXPECT_NEAR(metrics.at("dense_fraction"), 2.0 / 4, 1e-12);
}

TEST(EvaluationTest, DenseMeansMoreThanATenthOfTheTargets) {
  Example e;
  e.batch.y = at::arange(20, at::kFloat).view({1, 10, 2});
  e.batch.mask = at::ones({1, 10}, at::kBool);
  e.forward.reconstruction = e.batch.y;
  e.forward.activations.heads = at::zeros({10, 1}, at::kLong);
  e.forward.activations.heads.narrow(0, 0, 1).fill_(1);  // head 1: one of ten, not more
  e.forward.activations.values = at::ones({10, 1});
  EvaluationSums sums(kHeads, kOutputScale);
  sums.Add(e.batch, e.forward);
  EXPECT_NEAR(sums.Metrics()->at("dense_fraction"), 1.0 / 4, 1e-12);
}

TEST(EvaluationTest, WithoutTwoDifferentTargetsThereAreNoMetrics) {
  EvaluationSums sums(kHeads, kOutputScale);
  EXPECT_EQ(sums.Metrics().status().code(), absl::StatusCode::kFailedPrecondition);
  Example e = FirstBatch();
  e.batch.mask.zero_();
  sums.Add(e.batch, e.forward);
  EXPECT_EQ(sums.targets(), 0);
  EXPECT_EQ(sums.Metrics().status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lorsa::trainer

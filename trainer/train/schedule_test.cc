#include "trainer/train/schedule.h"

#include <gtest/gtest.h>

namespace lorsa::trainer {
namespace {

// 100 steps of 8 sequences.
TrainConfig Valid() {
  TrainConfig config;
  config.lorsa.top_k = 8;
  config.set.context = 32;
  config.total_tokens = 100 * 8 * 32;
  return config;
}

TEST(ScheduleTest, RisesStaysAndFalls) {
  TrainConfig config = Valid();  // 100 steps: 5 of warm-up, the last 20 of decay
  config.learning_rate = 1;
  EXPECT_DOUBLE_EQ(LearningRate(config, 0), 0.2);
  EXPECT_DOUBLE_EQ(LearningRate(config, 4), 1);
  EXPECT_DOUBLE_EQ(LearningRate(config, 50), 1);
  EXPECT_DOUBLE_EQ(LearningRate(config, 80), 1);
  EXPECT_DOUBLE_EQ(LearningRate(config, 81), 0.95);
  EXPECT_DOUBLE_EQ(LearningRate(config, 99), 0.05);
  config.final_learning_rate_factor = 0.5;
  EXPECT_DOUBLE_EQ(LearningRate(config, 99), 0.5);
}

TEST(ScheduleTest, CosineAndConstant) {
  TrainConfig config = Valid();
  config.learning_rate = 1;
  config.schedule = LearningRateSchedule::kConstant;
  EXPECT_DOUBLE_EQ(LearningRate(config, 0), 0.2);
  EXPECT_DOUBLE_EQ(LearningRate(config, 99), 1);
  config.schedule = LearningRateSchedule::kCosine;
  config.final_learning_rate_factor = 0.1;
  EXPECT_DOUBLE_EQ(LearningRate(config, 1), 0.4);
  EXPECT_DOUBLE_EQ(LearningRate(config, 4), 1);
  EXPECT_NEAR(LearningRate(config, 52), 0.5, 1e-12);   // 48 of 96
  EXPECT_NEAR(LearningRate(config, 36), 0.75, 1e-12);  // 32 of 96: cos 60° = 1/2
  EXPECT_DOUBLE_EQ(LearningRate(config, 99), 0.1);
}

TEST(ScheduleTest, KWarmsUpLinearlyOrExponentially) {
  TrainConfig config = Valid();  // K 8
  EXPECT_EQ(TopK(config, 0), 8);
  config.top_k_warmup_fraction = 0.4;  // 40 of 100 steps
  config.initial_top_k = 32;
  EXPECT_EQ(TopK(config, 0), 32);
  EXPECT_EQ(TopK(config, 20), 20);
  EXPECT_EQ(TopK(config, 40), 8);
  EXPECT_EQ(TopK(config, 99), 8);
  config.top_k_warmup = TopKWarmup::kExponential;
  EXPECT_EQ(TopK(config, 0), 32);
  EXPECT_EQ(TopK(config, 20), 16);  // 32·(1/4)^(1/2)
  EXPECT_EQ(TopK(config, 30), 11);  // 32·(1/4)^(3/4) = 11.3
  EXPECT_EQ(TopK(config, 40), 8);
}

TEST(ScheduleTest, WithoutWarmUpAndDecayTheRateStays) {
  TrainConfig config = Valid();
  config.warmup_fraction = config.decay_fraction = 0;
  EXPECT_DOUBLE_EQ(LearningRate(config, 0), config.learning_rate);
  EXPECT_DOUBLE_EQ(LearningRate(config, 99), config.learning_rate);
}

}  // namespace
}  // namespace lorsa::trainer

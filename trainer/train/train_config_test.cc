#include "trainer/train/train_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/train/schedule.h"

namespace lorsa::trainer {
namespace {

TrainConfig Valid() {
  TrainConfig config;
  config.lorsa = {.d_model = 16,
                  .n_ov_heads = 64,
                  .n_qk_heads = 8,
                  .d_qk = 4,
                  .top_k = 8,
                  .attn_scale = 2,
                  .rope = store::Rope{.base = 1e4, .rotary_dim = 4}};
  config.set = {
      .d_model = 16, .context = 32, .sequences = 1000, .mean_input_norm = 8, .mean_output_norm = 2};
  config.total_tokens = 100 * 8 * 32;
  config.evaluation_interval_tokens = config.checkpoint_interval_tokens = 1;
  return config;
}

TEST(TrainConfigTest, TokensAreRoundedUpToSteps) {
  TrainConfig config = Valid();
  EXPECT_EQ(config.total_steps(), 100);
  config.total_tokens += 1;
  EXPECT_EQ(config.total_steps(), 101);
  EXPECT_EQ(config.evaluation_interval_steps(), 1);
}

TEST(TrainConfigTest, ScalesMakeTheMeanNormSqrtOfTheWidth) {
  EXPECT_DOUBLE_EQ(Valid().input_scale(), 0.5);
  EXPECT_DOUBLE_EQ(Valid().output_scale(), 2);
}

TEST(TrainConfigTest, EachFieldOutOfItsBoundsIsNamed) {
  EXPECT_TRUE(ValidateTrainConfig(Valid()).ok()) << ValidateTrainConfig(Valid());
  const std::vector<std::pair<std::string, void (*)(TrainConfig&)>> wrongs = {
      {"d_model", [](TrainConfig& c) { c.lorsa.d_model = 17; }},
      {"n_ov_heads", [](TrainConfig& c) { c.lorsa.n_ov_heads = 65; }},
      {"n_ov_heads", [](TrainConfig& c) { c.lorsa.n_ov_heads = 1 << 21; }},
      {"n_qk_heads", [](TrainConfig& c) { c.lorsa.n_qk_heads = 0; }},
      {"d_qk", [](TrainConfig& c) { c.lorsa.d_qk = 2000; }},
      {"top_k", [](TrainConfig& c) { c.lorsa.top_k = 65; }},
      {"top_k", [](TrainConfig& c) { c.lorsa.top_k = 0; }},
      {"attn_scale", [](TrainConfig& c) { c.lorsa.attn_scale = 0; }},
      {"rope.base", [](TrainConfig& c) { c.lorsa.rope->base = 1; }},
      {"rope.rotary_dim", [](TrainConfig& c) { c.lorsa.rope->rotary_dim = 3; }},
      {"rope.rotary_dim", [](TrainConfig& c) { c.lorsa.rope->rotary_dim = 6; }},
      {"high_freq_factor",
       [](TrainConfig& c) {
         c.lorsa.rope->ntk_by_parts = {.high_freq_factor = 1, .original_context = 8};
       }},
      {"qk_norm.epsilon", [](TrainConfig& c) { c.lorsa.qk_norm = store::QkNorm{.epsilon = 0}; }},
      {"tokens", [](TrainConfig& c) { c.total_tokens = 0; }},
      {"held out", [](TrainConfig& c) { c.set.sequences = 128; }},
      {"mean norm", [](TrainConfig& c) { c.set.mean_output_norm = 0; }},
      {"sequences_per_step", [](TrainConfig& c) { c.sequences_per_step = 0; }},
      {"learning_rate", [](TrainConfig& c) { c.learning_rate = -1; }},
      {"decay_fraction", [](TrainConfig& c) { c.decay_fraction = 0.99; }},
      {"adam_beta2", [](TrainConfig& c) { c.adam_beta2 = 1; }},
      {"adam_epsilon", [](TrainConfig& c) { c.adam_epsilon = 0; }},
      {"threads", [](TrainConfig& c) { c.threads = 0; }},
      {"checkpoint_interval_tokens", [](TrainConfig& c) { c.checkpoint_interval_tokens = 0; }},
  };
  for (const auto& [name, break_it] : wrongs) {
    TrainConfig config = Valid();
    break_it(config);
    const absl::Status status = ValidateTrainConfig(config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(name));
  }
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

TEST(ScheduleTest, WithoutWarmUpAndDecayTheRateStays) {
  TrainConfig config = Valid();
  config.warmup_fraction = config.decay_fraction = 0;
  EXPECT_DOUBLE_EQ(LearningRate(config, 0), config.learning_rate);
  EXPECT_DOUBLE_EQ(LearningRate(config, 99), config.learning_rate);
}

}  // namespace
}  // namespace lorsa::trainer

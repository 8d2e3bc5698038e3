#include "trainer/config/train_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
      {"ranks", [](TrainConfig& c) { c.ranks = 0; }},
      {"ranks", [](TrainConfig& c) { c.ranks = 9; }},
      {"threads", [](TrainConfig& c) { c.threads = 0; }},
      {"w_v_learning_rate_factor", [](TrainConfig& c) { c.w_v_learning_rate_factor = -1; }},
      {"w_o_learning_rate_factor", [](TrainConfig& c) { c.w_o_learning_rate_factor = 101; }},
      {"bias_learning_rate_factor", [](TrainConfig& c) { c.bias_learning_rate_factor = -1; }},
      {"top_k_warmup_fraction", [](TrainConfig& c) { c.top_k_warmup_fraction = 2; }},
      {"initial_top_k", [](TrainConfig& c) { c.top_k_warmup_fraction = 0.5; }},
      {"decoder_norm", [](TrainConfig& c) { c.decoder_norm = -1; }},
      {"dead_after_fraction", [](TrainConfig& c) { c.dead_after_fraction = 0; }},
      {"aux_coefficient", [](TrainConfig& c) { c.aux_coefficient = -1; }},
      {"aux_top_k", [](TrainConfig& c) { c.aux_top_k = 65; }},
      {"resample_interval_fraction", [](TrainConfig& c) { c.resample_interval_fraction = 2; }},
      {"resample_until_fraction", [](TrainConfig& c) { c.resample_until_fraction = -1; }},
      {"resample_firing_factor", [](TrainConfig& c) { c.resample_firing_factor = 0; }},
      {"ema_fraction", [](TrainConfig& c) { c.ema_fraction = -1; }},
      {"refit_tokens", [](TrainConfig& c) { c.refit_tokens = -1; }},
      {"refit_tokens",
       [](TrainConfig& c) {
         c.lorsa.n_ov_heads = 1 << 15;
         c.refit_tokens = 1;
       }},
      {"refit_ridge", [](TrainConfig& c) { c.refit_ridge = 0; }},
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

TEST(TrainConfigTest, DeadHeadsAreCountedInTokensAndResampledOnTime) {
  TrainConfig config = Valid();  // 100 steps of 256 tokens
  EXPECT_EQ(config.dead_after_tokens(), 512);
  EXPECT_FALSE(config.ResamplesAt(10));
  config.resample_interval_fraction = 0.1;
  config.resample_until_fraction = 0.3;
  std::vector<int64_t> steps;
  for (int64_t step = 0; step < 100; ++step) {
    if (config.ResamplesAt(step)) steps.push_back(step);
  }
  EXPECT_THAT(steps, testing::ElementsAre(10, 20, 30));
}

}  // namespace
}  // namespace lorsa::trainer

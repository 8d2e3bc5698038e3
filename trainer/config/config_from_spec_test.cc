#include "trainer/config/config_from_spec.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "job_spec/describe_set.h"
#include "job_spec/initial_weights.h"
#include "job_spec/resolve.h"
#include "trainer/config/checkpoint_config.h"
#include "trainer/config/weights_from_config.h"

namespace lorsa::worker {
namespace {

store::Manifest LlamaLikeSet() {
  store::Manifest manifest;
  manifest.model = "m";
  manifest.attention = {.n_heads = 4, .n_kv_heads = 2, .d_head = 16, .attn_scale = 4};
  manifest.attention->rope = {.base = 500000, .rotary_dim = 16};
  manifest.attention->rope->ntk_by_parts = {
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 8192};
  manifest.attention->qk_norm = {.epsilon = 1e-5};
  manifest.d_model = 64;
  manifest.context = 32;
  manifest.sequences = 1000;
  manifest.mean_input_norm = 2;
  manifest.mean_output_norm = 3;
  manifest.attention_weights = store::FileRecord{.file = "attention.safetensors"};
  return manifest;
}

TEST(ConfigFromSpecTest, WhatTheManifestSaysReachesTheTrainer) {
  const v1::ActivationSet set = DescribeSet(LlamaLikeSet(), "s");
  v1::TrainingSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "activation_set: 's' top_k: 8 selection: SELECTION_SIGNED seed: 5 threads: 3 ranks: 2 "
      "tokens: 4096",
      &spec));
  const ResolvedSpec resolved = ResolveTrainingSpec(spec, set, {.cores = 2});
  ASSERT_TRUE(resolved.ok()) << resolved.violations[0].field;
  const auto config = ConfigFromSpec(resolved.spec, set);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->lorsa.n_ov_heads, 512);
  EXPECT_EQ(config->lorsa.n_qk_heads, 16);
  EXPECT_EQ(config->lorsa.d_qk, 16);
  EXPECT_EQ(config->lorsa.top_k, 8);
  EXPECT_EQ(config->lorsa.selection, trainer::Selection::kSigned);
  EXPECT_EQ(config->lorsa.attn_scale, 4);
  EXPECT_EQ(config->lorsa.rope->ntk_by_parts->original_context, 8192);
  EXPECT_EQ(config->lorsa.qk_norm->epsilon, 1e-5);
  EXPECT_EQ(config->initialization, trainer::Initialization::kDataSampled);
  EXPECT_EQ(config->set.attention->n_kv_heads, 2);
  EXPECT_EQ(config->set.mean_output_norm, 3);
  EXPECT_EQ(config->total_steps(), 16);
  EXPECT_EQ(config->seed, 5);
  EXPECT_EQ(config->threads, 3);
  EXPECT_EQ(config->ranks, 2);
}

TEST(ConfigFromSpecTest, WhatConfigJsonSaysComesBackThroughTheSpecification) {
  const v1::ActivationSet set = DescribeSet(LlamaLikeSet(), "s");
  trainer::CheckpointConfig config{
      .lorsa = {.d_model = 64,
                .n_ov_heads = 96,
                .n_qk_heads = 12,
                .d_qk = 10,
                .top_k = 7,
                .selection = trainer::Selection::kSigned,
                .select_by_decoder_norm = false,
                .decoder_bias = false,
                .attn_scale = 0.1,
                .rope = store::Rope{.base = 123, .rotary_dim = 6, .adjacent_pairs = true}},
      .context = 16,
      .hook_convention = set.hook_convention()};
  config.lorsa.rope->ntk_by_parts = {
      .factor = 2, .low_freq_factor = 0.5, .high_freq_factor = 3, .original_context = 99};
  v1::TrainingSpec spec;
  spec.set_initial_checkpoint("jobs/a/checkpoints/step-000000010");
  const ResolvedSpec resolved =
      ResolveFromWeights(spec, WeightsFromConfig(config), set, {.cores = 2});
  ASSERT_TRUE(resolved.ok()) << resolved.violations[0].field << resolved.violations[0].description;
  const auto run = ConfigFromSpec(resolved.spec, set);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->initialization, trainer::Initialization::kCheckpoint);
  trainer::CheckpointConfig again = config;
  again.lorsa = run->lorsa;
  EXPECT_EQ(FormatCheckpointConfig(again), FormatCheckpointConfig(config));
}

TEST(ConfigFromSpecTest, EachLeverOfTheRecipeReachesTheTrainer) {
  const v1::ActivationSet set = DescribeSet(LlamaLikeSet(), "s");
  v1::TrainingSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(activation_set: 's'
           dead_after_fraction: 0.01
           aux_coefficient: 0.02
           aux_top_k: 3
           resample_interval_fraction: 0.04
           resample_until_fraction: 0.05
           resample_firing_factor: 0.06
           ema_fraction: 0.07
           refit_tokens: 8
           refit_ridge: 0.09
           learning_rate_schedule: LEARNING_RATE_SCHEDULE_COSINE
           w_v_learning_rate_factor: 0.11
           w_o_learning_rate_factor: 0.12
           bias_learning_rate_factor: 0.13
           top_k_warmup_fraction: 0.14
           initial_top_k: 15
           top_k_warmup: TOP_K_WARMUP_EXPONENTIAL
           decoder_norm: 0.17
           precision: PRECISION_BF16)pb",
      &spec));
  const auto config = ConfigFromSpec(ResolveTrainingSpec(spec, set, {.cores = 2}).spec, set);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->dead_after_fraction, 0.01);
  EXPECT_EQ(config->aux_coefficient, 0.02);
  EXPECT_EQ(config->aux_top_k, 3);
  EXPECT_EQ(config->resample_interval_fraction, 0.04);
  EXPECT_EQ(config->resample_until_fraction, 0.05);
  EXPECT_EQ(config->resample_firing_factor, 0.06);
  EXPECT_EQ(config->ema_fraction, 0.07);
  EXPECT_EQ(config->refit_tokens, 8);
  EXPECT_EQ(config->refit_ridge, 0.09);
  EXPECT_EQ(config->schedule, trainer::LearningRateSchedule::kCosine);
  EXPECT_EQ(config->w_v_learning_rate_factor, 0.11);
  EXPECT_EQ(config->w_o_learning_rate_factor, 0.12);
  EXPECT_EQ(config->bias_learning_rate_factor, 0.13);
  EXPECT_EQ(config->top_k_warmup_fraction, 0.14);
  EXPECT_EQ(config->initial_top_k, 15);
  EXPECT_EQ(config->top_k_warmup, trainer::TopKWarmup::kExponential);
  EXPECT_EQ(config->decoder_norm, 0.17);
  EXPECT_EQ(config->precision, trainer::Precision::kBf16);
}

// The resolver and the trainer once had bounds of their own: 0.8 + 0.2 passed one and not the
// other.
TEST(ConfigFromSpecTest, WhatTheResolverAcceptsTheTrainerAccepts) {
  const v1::ActivationSet set = DescribeSet(LlamaLikeSet(), "s");
  for (const char* text :
       {"warmup_fraction: 0.8 decay_fraction: 0.2", "warmup_fraction: 0.9 decay_fraction: 0.1",
        "adam_beta1: 0.9999999999999 adam_beta2: 0", "tokens: 10000000000000",
        "n_ov_heads: 1048576", "n_qk_heads: 65536 n_ov_heads: 65536", "top_k: 512",
        "learning_rate: 1 qk_learning_rate_factor: 100 final_learning_rate_factor: 0",
        "dead_after_fraction: 1 aux_coefficient: 1000 aux_top_k: 512 resample_interval_fraction: 1",
        "resample_until_fraction: 0 resample_firing_factor: 100 ema_fraction: 1",
        "refit_tokens: 1000000000 refit_ridge: 1e6 n_ov_heads: 16384",
        "learning_rate_schedule: LEARNING_RATE_SCHEDULE_COSINE w_v_learning_rate_factor: 100",
        "learning_rate_schedule: LEARNING_RATE_SCHEDULE_CONSTANT bias_learning_rate_factor: 0",
        "top_k_warmup_fraction: 1 initial_top_k: 512 top_k_warmup: TOP_K_WARMUP_EXPONENTIAL",
        "w_o_learning_rate_factor: 100 decoder_norm: 1e6",
        "attn_scale: 1e6 max_gradient_norm: 1e30 adam_epsilon: 1 threads: 1024",
        "ranks: 64 sequences_per_step: 64"}) {
    v1::TrainingSpec spec;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
    spec.set_activation_set("s");
    const ResolvedSpec resolved = ResolveTrainingSpec(spec, set, {.cores = 2});
    ASSERT_TRUE(resolved.ok()) << text << ": " << resolved.violations[0].field;
    const auto config = ConfigFromSpec(resolved.spec, set);
    EXPECT_TRUE(config.ok()) << text << ": " << config.status();
  }
}

TEST(ConfigFromSpecTest, AnUnknownEnumValueIsRefused) {
  const v1::ActivationSet set = DescribeSet(LlamaLikeSet(), "s");
  v1::TrainingSpec spec;
  spec.set_activation_set("s");
  v1::TrainingSpec resolved = ResolveTrainingSpec(spec, set, {.cores = 2}).spec;
  resolved.set_selection(static_cast<v1::Selection>(77));
  EXPECT_TRUE(absl::IsInvalidArgument(ConfigFromSpec(resolved, set).status()));
  resolved.set_selection(v1::SELECTION_RELU);
  resolved.set_precision(static_cast<v1::Precision>(77));
  EXPECT_TRUE(absl::IsInvalidArgument(ConfigFromSpec(resolved, set).status()));
}

}  // namespace
}  // namespace lorsa::worker

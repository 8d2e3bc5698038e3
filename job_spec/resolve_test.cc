#include "job_spec/resolve.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <limits>

namespace lorsa {
namespace {

using google::protobuf::TextFormat;
using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;

v1::ActivationSet SmolLm2() {
  v1::ActivationSet set;
  EXPECT_TRUE(TextFormat::ParseFromString(R"pb(
                                            name: "activationSets/smollm2-l12"
                                            d_model: 576
                                            context: 256
                                            sequences: 1562
                                            held_out_sequences: 128
                                            has_attention_weights: true
                                            attention {
                                              n_heads: 9
                                              n_kv_heads: 3
                                              d_head: 64
                                              attn_scale: 8
                                              rope { base: 100000 rotary_dim: 64 }
                                            })pb",
                                          &set));
  return set;
}

ResolvedSpec Resolve(const std::string& text, const v1::ActivationSet& set = SmolLm2()) {
  v1::TrainingSpec spec;
  EXPECT_TRUE(TextFormat::ParseFromString(text, &spec)) << text;
  return ResolveTrainingSpec(spec, set, {.cores = 2, .has_bf16 = true});
}

std::vector<std::string> Fields(const ResolvedSpec& resolved) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : resolved.violations) fields.push_back(violation.field);
  return fields;
}

TEST(ResolveTest, BindsTheJobToTheContentsOfItsSet) {
  v1::ActivationSet set = SmolLm2();
  set.set_manifest_sha256("aa");
  const ResolvedSpec bound = Resolve("activation_set: 'smollm2-l12'", set);
  EXPECT_EQ(bound.spec.activation_set_sha256(), "aa");
  EXPECT_TRUE(ResolveTrainingSpec(bound.spec, set, {.cores = 2}).ok());
  set.set_manifest_sha256("bb");
  EXPECT_THAT(Fields(ResolveTrainingSpec(bound.spec, set, {.cores = 2})),
              ElementsAre("activation_set_sha256"));
}

TEST(ResolveTest, ThreeFieldsAreAWholeJob) {
  const ResolvedSpec resolved =
      Resolve("activation_set: 'smollm2-l12' expansion_factor: 8 top_k: 64");
  ASSERT_THAT(Fields(resolved), IsEmpty());
  v1::TrainingSpec expected;
  ASSERT_TRUE(TextFormat::ParseFromString(R"pb(
                                            activation_set: "smollm2-l12"
                                            expansion_factor: 8
                                            n_ov_heads: 4608
                                            n_qk_heads: 36
                                            d_qk: 64
                                            top_k: 64
                                            selection: SELECTION_RELU
                                            select_by_decoder_norm: true
                                            decoder_bias: true
                                            attn_scale: 8
                                            rope { base: 100000 rotary_dim: 64 }
                                            no_position_embedding: false
                                            initialization: INITIALIZATION_DATA_SAMPLED
                                            tokens: 368640
                                            sequences_per_step: 8
                                            learning_rate: 3e-3
                                            qk_learning_rate_factor: 0.05
                                            warmup_fraction: 0.05
                                            decay_fraction: 0.2
                                            final_learning_rate_factor: 0.03125
                                            adam_beta1: 0.9
                                            adam_beta2: 0.999
                                            adam_epsilon: 1e-8
                                            max_gradient_norm: 0
                                            seed: 0
                                            threads: 2
                                            precision: PRECISION_BF16
                                            evaluation_interval_tokens: 36864
                                            checkpoint_interval_tokens: 36864
                                            keep_checkpoints: 3
                                            max_rollbacks: 3
                                            keep_every_tokens: 0
                                            dead_after_fraction: 0.04
                                            aux_coefficient: 0
                                            aux_top_k: 288
                                            resample_interval_fraction: 0.05
                                            resample_until_fraction: 0.9
                                            resample_firing_factor: 0.3
                                            ema_fraction: 0.03
                                            refit_tokens: 262144
                                            refit_ridge: 0.01
                                            learning_rate_schedule:
                                                LEARNING_RATE_SCHEDULE_WARMUP_STABLE_DECAY
                                            w_v_learning_rate_factor: 1
                                            w_o_learning_rate_factor: 1
                                            bias_learning_rate_factor: 1
                                            top_k_warmup_fraction: 0
                                            initial_top_k: 256
                                            top_k_warmup: TOP_K_WARMUP_LINEAR
                                            decoder_norm: 0
                                            ranks: 1)pb",
                                          &expected));
  EXPECT_TRUE(MessageDifferencer::Equals(resolved.spec, expected)) << resolved.spec.DebugString();
}

// The layer's scale belongs to heads of the layer's width.
TEST(ResolveTest, HeadsOfAnotherWidthScaleByTheirOwn) {
  const std::string other =
      "activation_set: 's' initialization: INITIALIZATION_RANDOM d_qk: 16 "
      "rope { base: 10000 rotary_dim: 16 }";
  v1::ActivationSet set = SmolLm2();
  set.mutable_attention()->set_attn_scale(5);
  EXPECT_EQ(Resolve("activation_set: 's'", set).spec.attn_scale(), 5);
  EXPECT_EQ(Resolve("activation_set: 's' d_qk: 64", set).spec.attn_scale(), 5);
  EXPECT_EQ(Resolve(other, set).spec.attn_scale(), 4);
  EXPECT_EQ(Resolve(other + "attn_scale: 3", set).spec.attn_scale(), 3);
}

TEST(ResolveTest, QueriesAndKeysLearnAtFullRateWhereTheyStartAtRandom) {
  const ResolvedSpec resolved =
      Resolve("activation_set: 's' initialization: INITIALIZATION_RANDOM");
  ASSERT_THAT(Fields(resolved), IsEmpty());
  EXPECT_EQ(resolved.spec.qk_learning_rate_factor(), 1);
}

TEST(ResolveTest, ManyHeadsAreNotRefittedUnlessTheClientAsks) {
  EXPECT_EQ(Resolve("activation_set: 's' n_ov_heads: 9216").spec.refit_tokens(), 0);
  EXPECT_EQ(Resolve("activation_set: 's' n_ov_heads: 9216 refit_tokens: 4096").spec.refit_tokens(),
            4096);
}

TEST(ResolveTest, PrecisionIsFp32WhereTheMachineHasNoBf16UnlessTheClientSaysOtherwise) {
  const auto resolved = [](const std::string& text, bool has_bf16) {
    v1::TrainingSpec spec;
    EXPECT_TRUE(TextFormat::ParseFromString(text, &spec));
    return ResolveTrainingSpec(spec, SmolLm2(), {.cores = 2, .has_bf16 = has_bf16})
        .spec.precision();
  };
  EXPECT_EQ(resolved("activation_set: 's'", false), v1::PRECISION_FP32);
  EXPECT_EQ(resolved("activation_set: 's' precision: PRECISION_BF16", false), v1::PRECISION_BF16);
  EXPECT_EQ(resolved("activation_set: 's' precision: PRECISION_FP32", true), v1::PRECISION_FP32);
}

TEST(ResolveTest, ResolvingTwiceChangesNothing) {
  const ResolvedSpec once = Resolve("activation_set: 's' tokens: 100000 n_ov_heads: 72");
  ASSERT_THAT(Fields(once), IsEmpty());
  const ResolvedSpec twice = ResolveTrainingSpec(once.spec, SmolLm2(), {.cores = 64});
  ASSERT_THAT(Fields(twice), IsEmpty());
  EXPECT_TRUE(MessageDifferencer::Equals(once.spec, twice.spec));
}

TEST(ResolveTest, TokensAreRoundedUpToWholeSteps) {
  EXPECT_EQ(Resolve("activation_set: 's' tokens: 2049").spec.tokens(), 4096);
}

TEST(ResolveTest, RanksShareTheCores) {
  EXPECT_EQ(Resolve("activation_set: 's' ranks: 2").spec.threads(), 1);
  EXPECT_EQ(Resolve("activation_set: 's' ranks: 8").spec.threads(), 1);
  EXPECT_EQ(Resolve("activation_set: 's' ranks: 2 threads: 4").spec.threads(), 4);
}

TEST(ResolveTest, NamesEachImpossibleField) {
  const std::pair<const char*, const char*> kCases[] = {
      {"top_k: 4609", "top_k"},
      {"top_k: 0", "top_k"},
      {"n_qk_heads: 65529 d_qk: 1024 n_ov_heads: 65529", "n_qk_heads"},
      {"n_ov_heads: 4600", "n_ov_heads"},
      {"tokens: 0", "tokens"},
      {"tokens: 18446744073709551615", "tokens"},
      {"expansion_factor: 0", "expansion_factor"},
      {"expansion_factor: 4 n_ov_heads: 4608", "expansion_factor"},
      {"n_qk_heads: 8 n_ov_heads: 4608", "n_qk_heads"},
      {"d_qk: 32 rope { base: 10000 rotary_dim: 32 }", "d_qk"},
      {"rope { base: 10000 rotary_dim: 66 }", "rope.rotary_dim"},
      {"rope { base: 10000 rotary_dim: 3 }", "rope.rotary_dim"},
      {"rope { base: 1 rotary_dim: 4 }", "rope.base"},
      {"rope { base: 10000 rotary_dim: 4 } no_position_embedding: true", "rope"},
      {"attn_scale: 0", "attn_scale"},
      {"attn_scale: nan", "attn_scale"},
      {"attn_scale: 5e-324", "attn_scale"},
      {"learning_rate: inf", "learning_rate"},
      {"learning_rate: 0", "learning_rate"},
      {"adam_beta2: 1", "adam_beta2"},
      {"adam_epsilon: 0", "adam_epsilon"},
      {"warmup_fraction: 0.6 decay_fraction: 0.6", "decay_fraction"},
      {"max_gradient_norm: -1", "max_gradient_norm"},
      {"sequences_per_step: 0", "sequences_per_step"},
      {"sequences_per_step: 5000 tokens: 100000000", "sequences_per_step"},
      {"threads: 0", "threads"},
      {"ranks: 0", "ranks"},
      {"ranks: 65 sequences_per_step: 100", "ranks"},
      {"ranks: 3 sequences_per_step: 2", "ranks"},
      {"keep_checkpoints: 0", "keep_checkpoints"},
      {"max_rollbacks: 101", "max_rollbacks"},
      {"keep_every_tokens: 10000000000001", "keep_every_tokens"},
      {"checkpoint_interval_tokens: 1", "checkpoint_interval_tokens"},
      {"dead_after_fraction: 0", "dead_after_fraction"},
      {"aux_coefficient: -1", "aux_coefficient"},
      {"aux_top_k: 0", "aux_top_k"},
      {"aux_top_k: 4609", "aux_top_k"},
      {"resample_interval_fraction: 1.1", "resample_interval_fraction"},
      {"resample_until_fraction: nan", "resample_until_fraction"},
      {"resample_firing_factor: 0", "resample_firing_factor"},
      {"ema_fraction: 2", "ema_fraction"},
      {"refit_tokens: 1000000001", "refit_tokens"},
      {"refit_tokens: 1000 n_ov_heads: 18432", "refit_tokens"},
      {"refit_ridge: 0", "refit_ridge"},
      {"w_v_learning_rate_factor: 101", "w_v_learning_rate_factor"},
      {"w_o_learning_rate_factor: -1", "w_o_learning_rate_factor"},
      {"bias_learning_rate_factor: inf", "bias_learning_rate_factor"},
      {"top_k_warmup_fraction: 1.5", "top_k_warmup_fraction"},
      {"initial_top_k: 0", "initial_top_k"},
      {"initial_top_k: 4609", "initial_top_k"},
      {"decoder_norm: -1", "decoder_norm"},
      {"evaluation_interval_tokens: 2047", "evaluation_interval_tokens"},
  };
  for (const auto& [text, field] : kCases) {
    EXPECT_THAT(Fields(Resolve(std::string("activation_set: 's' ") + text)),
                IsSupersetOf({std::string(field)}))
        << text;
  }
}

TEST(ResolveTest, ReportsAllProblemsAtOnce) {
  EXPECT_THAT(Fields(Resolve("activation_set: 's' top_k: 5000 tokens: 0 learning_rate: -1")),
              ElementsAre("top_k", "tokens", "learning_rate"));
}

TEST(ResolveTest, ASetThatDoesNotDescribeItsLayerNeedsTheHeadsNamed) {
  v1::ActivationSet set = SmolLm2();
  set.clear_attention();
  // Nothing that only follows from these, such as attn_scale = sqrt(0).
  EXPECT_THAT(Fields(Resolve("activation_set: 's'", set)), ElementsAre("n_qk_heads", "d_qk"));
  EXPECT_THAT(Fields(Resolve("activation_set: 's' rope { base: 10000 rotary_dim: 32 }", set)),
              ElementsAre("n_qk_heads", "d_qk"));
  EXPECT_THAT(Fields(Resolve("activation_set: 's' n_qk_heads: 8 d_qk: 0", set)),
              ElementsAre("d_qk"));
  EXPECT_THAT(Fields(Resolve("activation_set: 's' n_qk_heads: 8 d_qk: 16 attn_scale: 0", set)),
              ElementsAre("attn_scale"));
  const ResolvedSpec resolved =
      Resolve("activation_set: 's' n_qk_heads: 8 d_qk: 16 n_ov_heads: 64", set);
  EXPECT_THAT(Fields(resolved), IsEmpty());
  EXPECT_EQ(resolved.spec.initialization(), v1::INITIALIZATION_RANDOM);
  EXPECT_EQ(resolved.spec.attn_scale(), 4);
  EXPECT_FALSE(resolved.spec.has_rope());
}

TEST(ResolveTest, AnInitialisationFromTheLayerNeedsItsWeights) {
  v1::ActivationSet set = SmolLm2();
  set.set_has_attention_weights(false);
  EXPECT_THAT(
      Fields(Resolve("activation_set: 's' initialization: INITIALIZATION_DATA_SAMPLED", set)),
      ElementsAre("initialization"));
}

TEST(ResolveTest, ASetWithoutTrainingSequencesIsRefused) {
  v1::ActivationSet set = SmolLm2();
  set.set_sequences(100);
  set.set_held_out_sequences(100);
  EXPECT_THAT(Fields(Resolve("activation_set: 's'", set)), ElementsAre("activation_set"));
}

TEST(ResolveTest, NoPositionEmbeddingDropsTheLayersOwn) {
  const ResolvedSpec resolved = Resolve("activation_set: 's' no_position_embedding: true");
  EXPECT_THAT(Fields(resolved), IsEmpty());
  EXPECT_FALSE(resolved.spec.has_rope());
}

}  // namespace
}  // namespace lorsa

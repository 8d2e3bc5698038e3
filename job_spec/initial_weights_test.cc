#include "job_spec/initial_weights.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "job_spec/fork.h"

namespace lorsa {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

std::vector<std::string> FieldsOf(const ResolvedSpec& resolved) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : resolved.violations) fields.push_back(violation.field);
  return fields;
}

class InitialWeightsTest : public ::testing::Test {
 protected:
  InitialWeightsTest() {
    weights_.lorsa = Parse<v1::TrainingSpec>(R"pb(
      expansion_factor: 4
      n_ov_heads: 64
      n_qk_heads: 8
      d_qk: 4
      top_k: 5
      selection: SELECTION_SIGNED
      select_by_decoder_norm: false
      decoder_bias: false
      attn_scale: 3
      rope { base: 500 rotary_dim: 4 })pb");
    weights_.d_model = 16;
    weights_.hook_convention = "transformers.self_attn";
    // A layer that differs from the weights in all that could be taken from it.
    set_ = Parse<v1::ActivationSet>(R"pb(
      name: "activationSets/set"
      d_model: 16
      context: 32
      sequences: 500
      held_out_sequences: 100
      hook_convention: "transformers.self_attn"
      has_attention_weights: true
      attention {
        n_heads: 3
        n_kv_heads: 3
        d_head: 8
        attn_scale: 7
        rope { base: 10000 rotary_dim: 8 }
        qk_norm { epsilon: 1e-5 }
      })pb");
  }

  ResolvedSpec Resolve(const std::string& more) {
    return ResolveFromWeights(Parse<v1::TrainingSpec>("activation_set: 'set' initial_checkpoint: "
                                                      "'jobs/a/checkpoints/step-000000010' " +
                                                      more),
                              weights_, set_, machine_);
  }
  std::vector<std::string> Refused(const std::string& more) { return FieldsOf(Resolve(more)); }

  InitialWeights weights_;
  v1::ActivationSet set_;
  const TrainingMachine machine_{.cores = 2};
};

TEST_F(InitialWeightsTest, TheLorsaIsThatOfTheWeightsAndNotOfTheSetsLayer) {
  const ResolvedSpec resolved = Resolve("");
  ASSERT_THAT(resolved.violations, IsEmpty());
  const v1::TrainingSpec& spec = resolved.spec;
  EXPECT_EQ(spec.initialization(), v1::INITIALIZATION_CHECKPOINT);
  EXPECT_EQ(spec.initial_checkpoint(), "jobs/a/checkpoints/step-000000010");
  EXPECT_EQ(spec.n_ov_heads(), 64);
  EXPECT_EQ(spec.expansion_factor(), 4);
  EXPECT_EQ(spec.n_qk_heads(), 8);
  EXPECT_EQ(spec.d_qk(), 4);
  EXPECT_EQ(spec.attn_scale(), 3);
  EXPECT_FALSE(spec.decoder_bias());
  EXPECT_EQ(spec.rope().base(), 500);
  EXPECT_FALSE(spec.has_qk_norm());
  EXPECT_EQ(spec.top_k(), 5);
  EXPECT_EQ(spec.selection(), v1::SELECTION_SIGNED);
  EXPECT_FALSE(spec.select_by_decoder_norm());
  EXPECT_EQ(spec.qk_learning_rate_factor(), 0.05);
}

TEST_F(InitialWeightsTest, WhatTheWeightsDoNotFixIsFree) {
  const ResolvedSpec resolved = Resolve(
      "top_k: 9 selection: SELECTION_RELU select_by_decoder_norm: true seed: 3 "
      "sequences_per_step: 2 precision: PRECISION_FP32 tokens: 640 learning_rate: 0.5");
  ASSERT_THAT(resolved.violations, IsEmpty());
  EXPECT_EQ(resolved.spec.top_k(), 9);
  EXPECT_EQ(resolved.spec.selection(), v1::SELECTION_RELU);
  EXPECT_TRUE(resolved.spec.select_by_decoder_norm());
  EXPECT_EQ(resolved.spec.seed(), 3);
  EXPECT_EQ(resolved.spec.tokens(), 640);
}

TEST_F(InitialWeightsTest, EachFieldThatTheWeightsFixIsRefusedIfItDiffers) {
  EXPECT_THAT(
      Refused("n_ov_heads: 128 n_qk_heads: 4 d_qk: 8 decoder_bias: true attn_scale: 2"),
      UnorderedElementsAre("n_ov_heads", "n_qk_heads", "d_qk", "decoder_bias", "attn_scale"));
  EXPECT_THAT(Refused("rope { base: 10000 }"), ElementsAre("rope"));
  EXPECT_THAT(Refused("rope { base: 500 rotary_dim: 4 adjacent_pairs: true }"),
              ElementsAre("rope"));
  EXPECT_THAT(Refused("qk_norm { epsilon: 1e-6 }"), ElementsAre("qk_norm"));
  EXPECT_THAT(Refused("expansion_factor: 8"), ElementsAre("expansion_factor"));
  EXPECT_THAT(Refused("no_position_embedding: true"), ElementsAre("no_position_embedding"));
  EXPECT_THAT(Refused("n_ov_heads: 64 rope { base: 500 rotary_dim: 4 } expansion_factor: 4"),
              IsEmpty());
}

TEST_F(InitialWeightsTest, WeightsWithoutPositionEmbeddingGetNone) {
  weights_.lorsa.clear_rope();
  for (const char* more : {"", "no_position_embedding: true"}) {
    const ResolvedSpec resolved = Resolve(more);
    ASSERT_THAT(resolved.violations, IsEmpty());
    EXPECT_FALSE(resolved.spec.has_rope());
    EXPECT_FALSE(resolved.spec.has_qk_norm());
  }
  EXPECT_THAT(Refused("rope { base: 500 rotary_dim: 4 }"), ElementsAre("rope"));
}

TEST_F(InitialWeightsTest, WeightsOfAnotherSizeOrHookAreRefusedByThatAlone) {
  set_.set_d_model(12);
  EXPECT_THAT(Refused(""), ElementsAre("initial_checkpoint"));
  set_.set_d_model(16);
  set_.set_hook_convention("transformer_lens.ln1.hook_normalized");
  EXPECT_THAT(Refused(""), ElementsAre("initial_checkpoint"));
}

TEST_F(InitialWeightsTest, OtherWrongFieldsAreFoundToo) {
  EXPECT_THAT(Refused("d_qk: 8 top_k: 65 learning_rate: -1"),
              UnorderedElementsAre("d_qk", "top_k", "learning_rate"));
}

TEST_F(InitialWeightsTest, TheInitializationAndItsCheckpointGoTogether) {
  EXPECT_THAT(Refused("initialization: INITIALIZATION_CHECKPOINT"), IsEmpty());
  EXPECT_THAT(Refused("initialization: INITIALIZATION_RANDOM"), ElementsAre("initialization"));
  const auto alone = Parse<v1::TrainingSpec>(
      "activation_set: 'set' n_qk_heads: 4 initialization: INITIALIZATION_CHECKPOINT");
  EXPECT_THAT(FieldsOf(ResolveTrainingSpec(alone, set_, machine_)),
              ElementsAre("initial_checkpoint"));
}

TEST_F(InitialWeightsTest, ResolvingTheResultAgainGivesTheSame) {
  const v1::TrainingSpec once = Resolve("").spec;
  EXPECT_EQ(ResolveFromWeights(once, weights_, set_, machine_).spec.SerializeAsString(),
            once.SerializeAsString());
  // As a fork does, when the weights may be gone.
  EXPECT_EQ(ResolveTrainingSpec(once, set_, machine_).spec.SerializeAsString(),
            once.SerializeAsString());
  EXPECT_TRUE(ForkTrainingSpec(once, {}, 32, set_, machine_).ok());
}

}  // namespace
}  // namespace lorsa

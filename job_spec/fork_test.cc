#include "job_spec/fork.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lorsa {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

v1::TrainingSpec Spec(const std::string& text) {
  v1::TrainingSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

class ForkTest : public ::testing::Test {
 protected:
  ForkTest() {
    set_.set_name("activationSets/set");
    set_.set_d_model(16);
    set_.set_context(32);
    set_.set_sequences(500);
    set_.set_held_out_sequences(100);
    ran_ = Ran("");
  }
  v1::TrainingSpec Ran(const std::string& more) {
    const ResolvedSpec ran = ResolveTrainingSpec(
        Spec("activation_set: 'set' n_ov_heads: 64 n_qk_heads: 8 d_qk: 4 top_k: 8 tokens: 12800 " +
             more),
        set_, machine_);
    EXPECT_TRUE(ran.ok()) << ran.violations.at(0).field << ran.violations.at(0).description;
    return ran.spec;
  }
  ResolvedSpec Fork(const std::string& changes) {
    return ForkTrainingSpec(ran_, Spec(changes), /*checkpoint_tokens=*/6400, set_, machine_);
  }
  std::vector<std::string> Refused(const std::string& changes) {
    std::vector<std::string> fields;
    for (const FieldViolation& violation : Fork(changes).violations) {
      fields.push_back(violation.field);
    }
    return fields;
  }

  v1::ActivationSet set_;
  const TrainingMachine machine_{.cores = 2};
  v1::TrainingSpec ran_;
};

TEST_F(ForkTest, ChangedFieldsTakeThePlaceOfTheOldOnes) {
  const ResolvedSpec forked = Fork("tokens: 25600 learning_rate: 0.001 aux_coefficient: 0.03");
  ASSERT_TRUE(forked.ok());
  v1::TrainingSpec expected = ran_;
  expected.set_tokens(25600);
  expected.set_learning_rate(0.001);
  expected.set_aux_coefficient(0.03);
  EXPECT_EQ(forked.spec.DebugString(), expected.DebugString());
}

TEST_F(ForkTest, WithoutChangesTheRestOfTheRunIsDoneAgain) {
  EXPECT_EQ(Fork("").spec.DebugString(), ran_.DebugString());
  EXPECT_THAT(Refused(""), IsEmpty());
}

TEST_F(ForkTest, EachFieldThatTheCheckpointFixesIsRefusedByName) {
  EXPECT_THAT(
      Refused("activation_set: 'other' n_ov_heads: 128 n_qk_heads: 16 d_qk: 8 top_k: 4 "
              "selection: SELECTION_SIGNED select_by_decoder_norm: false decoder_bias: false "
              "attn_scale: 3 rope { base: 10000 rotary_dim: 4 } qk_norm { epsilon: 0.1 } "
              "initialization: INITIALIZATION_FROM_ATTENTION sequences_per_step: 4 seed: 1 "
              "precision: PRECISION_BF16"),
      ::testing::IsSupersetOf({"activation_set", "n_ov_heads", "n_qk_heads", "d_qk", "top_k",
                               "selection", "select_by_decoder_norm", "decoder_bias", "attn_scale",
                               "rope", "qk_norm", "initialization", "sequences_per_step", "seed",
                               "precision"}));
}

TEST_F(ForkTest, AFixedFieldMayBeNamedAsItWas) {
  EXPECT_THAT(Refused("activation_set: 'set' n_ov_heads: 64 top_k: 8 seed: 0 tokens: 25600"),
              IsEmpty());
}

TEST_F(ForkTest, AnAverageOfWeightsCanNeitherBeginNorEnd) {
  EXPECT_THAT(Refused("ema_fraction: 0"), ElementsAre("ema_fraction"));
  EXPECT_THAT(Refused("ema_fraction: 0.5"), IsEmpty());
  ran_ = Ran("ema_fraction: 0");
  EXPECT_THAT(Refused("ema_fraction: 0.5"), ElementsAre("ema_fraction"));
}

TEST_F(ForkTest, ARunMustHaveSomethingLeftToDo) {
  EXPECT_THAT(Refused("tokens: 6400"), ElementsAre("tokens"));
  EXPECT_THAT(Refused("tokens: 6401"), IsEmpty());
}

TEST_F(ForkTest, EveryProblemIsToldAtOnce) {
  EXPECT_THAT(Refused("top_k: 4 learning_rate: 7"), UnorderedElementsAre("top_k", "learning_rate"));
}

}  // namespace
}  // namespace lorsa

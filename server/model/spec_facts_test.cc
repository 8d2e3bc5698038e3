#include "server/model/spec_facts.h"

#include <gtest/gtest.h>

namespace lorsa::server {
namespace {

TEST(SpecFactsTest, TrainingTakesAThreadOfEachRank) {
  v1::JobSpec spec;
  v1::TrainingSpec& training = *spec.mutable_training();
  training.set_activation_set("set");
  training.set_initial_checkpoint("jobs/a/checkpoints/step-000000001");
  training.set_threads(3);
  training.set_ranks(2);
  training.set_keep_checkpoints(4);
  training.set_keep_every_tokens(100);
  const SpecFacts facts = FactsOf(spec);
  EXPECT_EQ(KindOf(spec), "training");
  EXPECT_EQ(facts.activation_set, "set");
  EXPECT_EQ(facts.initial_checkpoint, "jobs/a/checkpoints/step-000000001");
  EXPECT_FALSE(facts.never_runs);
  EXPECT_EQ(facts.ranks, 2);
  EXPECT_EQ(facts.cpu_slots, 6);
  EXPECT_EQ(facts.keep_checkpoints, 4);
  EXPECT_EQ(facts.keep_every_tokens, 100);
}

TEST(SpecFactsTest, AnImportedCheckpointsJobNeverRuns) {
  v1::JobSpec spec;
  spec.mutable_training()->set_n_ov_heads(8);
  EXPECT_TRUE(FactsOf(spec).never_runs);
}

TEST(SpecFactsTest, AProgramThatReadsNoSetRuns) {
  v1::JobSpec spec;
  spec.mutable_program()->set_kind("toy");
  spec.mutable_program()->set_threads(2);
  EXPECT_EQ(KindOf(spec), "toy");
  EXPECT_FALSE(FactsOf(spec).never_runs);
  EXPECT_EQ(FactsOf(spec).cpu_slots, 2);
  EXPECT_EQ(FactsOf(spec).ranks, 1);
}

}  // namespace
}  // namespace lorsa::server

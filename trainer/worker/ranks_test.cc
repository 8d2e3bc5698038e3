#include "trainer/worker/ranks.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>

#include "trainer/config/config_from_spec.h"
#include "trainer/lorsa/make_lorsa_kernel.h"
#include "trainer/parallel/testing/thread_ranks.h"

namespace lorsa::worker {
namespace {

using google::protobuf::TextFormat;
using trainer::Communicator;
using trainer::RunThreadRanks;

v1::ActivationSet SmallSet() {
  v1::ActivationSet set;
  EXPECT_TRUE(TextFormat::ParseFromString(
      "d_model: 8 context: 4 sequences: 200 element_type: ELEMENT_TYPE_FP32 "
      "mean_input_norm: 1 mean_output_norm: 1",
      &set));
  return set;
}

v1::TrainingSpec SmallSpec(int ranks) {
  v1::TrainingSpec spec;
  EXPECT_TRUE(TextFormat::ParseFromString(
      "activation_set: 's' n_ov_heads: 16 n_qk_heads: 4 d_qk: 2 top_k: 3 attn_scale: 1 "
      "initialization: INITIALIZATION_RANDOM",
      &spec));
  spec.set_ranks(static_cast<uint32_t>(ranks));
  return spec;
}

TEST(RanksTest, OtherNumberThanWasStartedIsRefusedWithWhatToDo) {
  LeadingRank alone(nullptr);
  EXPECT_EQ(alone.ranks(), 1);
  const auto refused = alone.Decorator(SmallSpec(2), SmallSet());
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              testing::AllOf(testing::HasSubstr("ranks is 2, but 1 process was started"),
                             testing::HasSubstr("mpirun -n 2")));
}

TEST(RanksTest, OneRankNeedsNoDecorator) {
  LeadingRank alone(nullptr);
  const auto decorate = alone.Decorator(SmallSpec(1), SmallSet());
  ASSERT_TRUE(decorate.ok()) << decorate.status();
  EXPECT_FALSE(*decorate);
}

// An error before the run, such as a specification that cannot be run, would else leave the other
// ranks waiting for ever.
TEST(RanksTest, OthersMayGoIfThereIsNoRun) {
  const auto aborted = RunThreadRanks(3, [](Communicator& communicator) {
    if (communicator.rank() > 0) return FollowRankZero(communicator);
    LeadingRank leader(&communicator);
    EXPECT_EQ(leader.ranks(), 3);
    EXPECT_FALSE(leader.Decorator(SmallSpec(2), SmallSet()).ok());
  });
  EXPECT_EQ(aborted, std::nullopt);
}

}  // namespace
}  // namespace lorsa::worker

#include "job_spec/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace lorsa {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Scheduled, each 100 tokens.
std::vector<RetainedCheckpoint> Checkpoints(int count) {
  std::vector<RetainedCheckpoint> checkpoints;
  for (int i = 0; i < count; ++i) {
    checkpoints.push_back({.step = 10 * i, .tokens = 100 * i, .scheduled = true});
  }
  return checkpoints;
}

TEST(RetentionTest, TheNewestAreKept) {
  EXPECT_THAT(CheckpointsToDelete(Checkpoints(5), {.keep_checkpoints = 2}), ElementsAre(0, 10, 20));
  EXPECT_THAT(CheckpointsToDelete(Checkpoints(5), {.keep_checkpoints = 0}),
              ElementsAre(0, 10, 20, 30));
  EXPECT_THAT(CheckpointsToDelete(Checkpoints(2), {.keep_checkpoints = 3}), IsEmpty());
  EXPECT_THAT(CheckpointsToDelete({}, {}), IsEmpty());
}

TEST(RetentionTest, TheBestIsKeptAndOfEqualOnesTheLater) {
  auto checkpoints = Checkpoints(5);
  checkpoints[0].fvu = 0.5;
  checkpoints[1].fvu = 0.3;
  checkpoints[2].fvu = 0.3;
  checkpoints[3].fvu = 0.4;
  EXPECT_THAT(CheckpointsToDelete(checkpoints, {}), ElementsAre(0, 10, 30));
}

TEST(RetentionTest, ThePinnedAreKeptAndTakeNoOthersPlace) {
  auto checkpoints = Checkpoints(5);
  checkpoints[1].pinned = true;
  checkpoints[4].pinned = true;
  EXPECT_THAT(CheckpointsToDelete(checkpoints, {.keep_checkpoints = 2}), ElementsAre(0, 20));
}

TEST(RetentionTest, TheNewestScheduledIsKeptBehindTheExtraOnesOfPauses) {
  auto checkpoints = Checkpoints(5);
  checkpoints[3].scheduled = false;
  checkpoints[4].scheduled = false;
  EXPECT_THAT(CheckpointsToDelete(checkpoints, {.keep_checkpoints = 2}), ElementsAre(0, 10));
}

TEST(RetentionTest, OneOfEverySoManyTokensIsKept) {
  EXPECT_THAT(CheckpointsToDelete(Checkpoints(8), {.keep_every_tokens = 250}),
              ElementsAre(10, 20, 40, 60));  // kept: 0, 300, 500 and the newest, 700
  // Further apart than the interval: all.
  EXPECT_THAT(CheckpointsToDelete(Checkpoints(8), {.keep_every_tokens = 50}), IsEmpty());
}

// Applied after each publication or only at the end: the same is left, but for what was the newest
// or the best in between.
TEST(RetentionTest, AppliedAgainItNamesNothingMore) {
  std::mt19937 random(3);
  for (int run = 0; run < 200; ++run) {
    const RetentionPolicy policy{.keep_checkpoints = static_cast<int64_t>(1 + random() % 4),
                                 .keep_every_tokens = static_cast<int64_t>(random() % 3 * 170)};
    std::vector<RetainedCheckpoint> left;
    for (RetainedCheckpoint& next : Checkpoints(20)) {
      if (random() % 3 == 0) next.fvu = random() % 5;
      next.scheduled = random() % 2 == 0;
      next.pinned = random() % 6 == 0;
      left.push_back(next);
      for (const int64_t step : CheckpointsToDelete(left, policy)) {
        std::erase_if(left, [&](const RetainedCheckpoint& c) { return c.step == step; });
      }
      EXPECT_THAT(CheckpointsToDelete(left, policy), IsEmpty());
      EXPECT_EQ(left.back().step, next.step);
    }
    if (policy.keep_every_tokens > 0) {
      EXPECT_EQ(left.front().step, 0);
    }
  }
}

}  // namespace
}  // namespace lorsa

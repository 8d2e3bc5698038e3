#include "trainer/train/rollback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/failing_file_system.h"
#include "base/scratch_folder.h"

namespace lorsa::trainer {
namespace {

using testing::HasSubstr;

TEST(RollbackTest, EachHalvesTheLearningRateAndLeavesItsBatchOut) {
  EXPECT_EQ(LearningRateFactor({}, 20), 1);
  const Rollbacks two = {{.failed_step = 17, .to_step = 10}, {.failed_step = 12, .to_step = 10}};
  EXPECT_EQ(LearningRateFactor(two, 11), 0.25);
  EXPECT_EQ(LearningRateFactor(two, 10), 1);
  EXPECT_TRUE(LeavesOut(two, 17));
  EXPECT_TRUE(LeavesOut(two, 12));
  EXPECT_FALSE(LeavesOut(two, 16));
}

TEST(RollbackTest, ARollbackHoldsFromTheStepThatTheRunWentBackTo) {
  const Rollbacks rising = {{.failed_step = 12, .to_step = 10}, {.failed_step = 24, .to_step = 20}};
  EXPECT_EQ(LearningRateFactor(rising, 10), 1);
  EXPECT_EQ(LearningRateFactor(rising, 11), 0.5);
  EXPECT_EQ(LearningRateFactor(rising, 20), 0.5);
  EXPECT_EQ(LearningRateFactor(rising, 21), 0.25);
  // The second went back further: what lies between was done again under both.
  const Rollbacks falling = {{.failed_step = 24, .to_step = 20},
                             {.failed_step = 12, .to_step = 10}};
  EXPECT_EQ(LearningRateFactor(falling, 10), 1);
  EXPECT_EQ(LearningRateFactor(falling, 11), 0.25);
}

TEST(RollbackTest, ACheckpointOfAGivenUpBranchIsNotOfTheHistory) {
  const Rollbacks one = {{.failed_step = 17, .to_step = 10}};
  EXPECT_TRUE(IsOfHistory(10, {}, one));
  EXPECT_TRUE(IsOfHistory(5, {}, one));
  EXPECT_FALSE(IsOfHistory(13, {}, one));  // of a pause between 10 and 17
  EXPECT_TRUE(IsOfHistory(13, one, one));
  const Rollbacks two = {one[0], {.failed_step = 22, .to_step = 20}};
  EXPECT_TRUE(IsOfHistory(20, one, two));
  EXPECT_FALSE(IsOfHistory(21, one, two));
  EXPECT_FALSE(IsOfHistory(13, {}, two));
  EXPECT_FALSE(IsOfHistory(20, {{.failed_step = 16, .to_step = 10}}, two));
  EXPECT_FALSE(IsOfHistory(20, two, one));
}

TEST(RollbackTest, TheFileReadsBack) {
  const ScratchFolder scratch;
  PosixFileSystem fs;
  const std::string path = scratch.Path("rollbacks.json");
  EXPECT_TRUE(ReadRollbacks(fs, path)->empty());
  const Rollbacks rollbacks = {{.failed_step = 17, .to_step = 10}};
  ASSERT_TRUE(WriteRollbacks(fs, path, rollbacks).ok());
  EXPECT_EQ(*ReadRollbacks(fs, path), rollbacks);
}

TEST(RollbackTest, AFileThatCannotBeIsDamageWithItsName) {
  const ScratchFolder scratch;
  PosixFileSystem fs;
  const std::string path = scratch.Path("rollbacks.json");
  for (const char* list : {R"(3)", R"([3])", R"([{"failed_step": 4, "to_step": 4}])",
                           R"([{"failed_step": 4}])", R"([{"failed_step": 0, "to_step": 0}])"}) {
    ASSERT_TRUE(WriteFileAtomically(fs, path,
                                    std::string(R"({"format": "lorsa-rollbacks", )") +
                                        R"("format_version": 1, "rollbacks": )" + list + "}")
                    .ok());
    const absl::Status status = ReadRollbacks(fs, path).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << list << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

TEST(RollbackTest, AFailedWriteLeavesTheListBefore) {
  const ScratchFolder scratch;
  PosixFileSystem fs;
  const std::string path = scratch.Path("rollbacks.json");
  const Rollbacks before = {{.failed_step = 3, .to_step = 0}};
  ASSERT_TRUE(WriteRollbacks(fs, path, before).ok());
  for (const char* operation : {"create", "append", "sync", "rename"}) {
    FailingFileSystem failing(operation);
    EXPECT_TRUE(absl::IsResourceExhausted(
        WriteRollbacks(failing, path, {before[0], {.failed_step = 9, .to_step = 5}})));
    EXPECT_EQ(*ReadRollbacks(fs, path), before) << operation;
  }
}

TEST(RollbackTest, OnlyANotFiniteErrorIsOne) {
  EXPECT_TRUE(IsNotFinite(NotFiniteError("NaN")));
  EXPECT_TRUE(absl::IsAborted(NotFiniteError("NaN")));
  EXPECT_FALSE(IsNotFinite(absl::AbortedError("a stale attempt")));
  EXPECT_FALSE(IsNotFinite(absl::OkStatus()));
}

}  // namespace
}  // namespace lorsa::trainer

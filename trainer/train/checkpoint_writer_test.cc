#include "trainer/train/checkpoint_writer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "base/scratch_folder.h"
#include "trainer/train/testing/fake_host.h"

namespace lorsa::trainer {
namespace {

using testing::ElementsAre;

class CheckpointWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    state_.parameters = ZeroParameters(config_.lorsa, at::kCPU);
    state_.adam = NewAdamState(config_.lorsa, at::kCPU);
    state_.tokens_since_fired = at::zeros({config_.lorsa.n_ov_heads}, at::kLong);
  }

  void Start(CheckpointWriter& writer, int64_t step) {
    state_.counts.step = step;
    writer.Start(ContentsOf({.config = CheckpointConfigOf(config_),
                             .state = state_,
                             .environment = CurrentEnvironment(1)}),
                 {.tokens = 24 * step, .fvu = 0.5, .scheduled = true});
  }

  SyntheticSet set_ = MakeSyntheticSet(160);
  TrainConfig config_ = SyntheticConfig(set_);
  const ScratchFolder scratch_;
  FakeHost host_{set_, 0, scratch_.path()};
  PosixFileSystem fs_;
  TrainingState state_;
};

TEST_F(CheckpointWriterTest, TheStateIsCopiedBeforeTrainingGoesOn) {
  absl::Notification go;
  host_.on_publish = [&](const StagedCheckpoint&) {
    go.WaitForNotification();
    return absl::OkStatus();
  };
  CheckpointWriter writer(host_);
  Start(writer, 5);
  state_.parameters.w_o.fill_(7);
  state_.tokens_since_fired.fill_(7);
  EXPECT_FALSE(writer.Poll()->has_value());
  EXPECT_TRUE(writer.busy());
  go.Notify();
  const auto published = writer.Finish();
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(**published, host_.CheckpointFolder(5));
  EXPECT_FALSE(writer.busy());
  const auto checkpoint = ReadCheckpoint(fs_, **published, at::kCPU);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->state.parameters.w_o.abs().max().item<float>(), 0);
  EXPECT_EQ(checkpoint->state.tokens_since_fired.max().item<int64_t>(), 0);
  EXPECT_EQ(host_.published.back().tokens, 120);
  EXPECT_EQ(host_.published.back().fvu, 0.5);
}

TEST_F(CheckpointWriterTest, PollTriesAgainAfterAFullDiskWhileTrainingGoesOn) {
  int refusals = 2;
  host_.on_publish = [&](const StagedCheckpoint&) {
    return refusals-- > 0 ? absl::ResourceExhaustedError("no space") : absl::OkStatus();
  };
  CheckpointWriter writer(host_);
  Start(writer, 5);
  std::optional<std::string> published;
  while (!published) {
    const auto polled = writer.Poll();
    ASSERT_TRUE(polled.ok()) << polled.status();
    published = *polled;
    absl::SleepFor(absl::Microseconds(100));  // 1 ms of the host's time
  }
  EXPECT_THAT(host_.waiting, ElementsAre("DISK_FULL", ""));
  EXPECT_EQ(refusals, -1);
}

TEST_F(CheckpointWriterTest, AStopGivesUpWhatTheFullDiskHoldsBack) {
  host_.on_publish = [&](const StagedCheckpoint&) {
    return absl::ResourceExhaustedError("no space");
  };
  host_.on_poll = [] { return StopRequest::kPause; };
  CheckpointWriter writer(host_);
  Start(writer, 5);
  const auto finished = writer.Finish();
  EXPECT_TRUE(absl::IsResourceExhausted(finished.status())) << finished.status();
  EXPECT_FALSE(writer.busy());
  EXPECT_THAT(host_.waiting, ElementsAre("DISK_FULL", ""));
}

TEST_F(CheckpointWriterTest, AnErrorEndsItAndAnExceptionIsOne) {
  host_.on_publish = [&](const StagedCheckpoint&) { return absl::UnavailableError("away"); };
  CheckpointWriter writer(host_);
  Start(writer, 5);
  EXPECT_EQ(writer.Finish().status(), absl::UnavailableError("away"));
  EXPECT_FALSE(writer.busy());
  host_.on_publish = [&](const StagedCheckpoint&) -> absl::Status {
    throw std::runtime_error("out of the thread");
  };
  Start(writer, 5);
  EXPECT_TRUE(absl::IsInternal(writer.Finish().status()));
}

TEST_F(CheckpointWriterTest, WhatIsNotFiniteIsNotWritten) {
  state_.adam.variance.w_k[0][0][0] = std::numeric_limits<float>::infinity();
  CheckpointWriter writer(host_);
  Start(writer, 5);
  EXPECT_TRUE(IsNotFinite(writer.Finish().status()));
  EXPECT_TRUE(host_.published.empty());
}

}  // namespace
}  // namespace lorsa::trainer

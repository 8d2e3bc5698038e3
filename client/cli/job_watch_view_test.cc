#include "client/cli/job_watch_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/testing/progress_values.h"
#include "lorsa/client/progress.h"

namespace lorsa::cli {
namespace {

v1::JobProgress Progress() {
  v1::JobProgress progress;
  progress.set_step(45);
  progress.set_total_steps(100);
  client::AddProgressValues(progress, {{"tokens", 92'160},
                                       {"total_tokens", 204'800},
                                       {"tokens_per_second", 1030},
                                       {"loss", 123.4},
                                       {"l0", 63.9},
                                       {"fvu", 0.28139}});
  progress.set_phase("training");
  return progress;
}

TEST(ProgressPartsTest, AllFiguresOfARunningJobFitATerminalOfEightyColumns) {
  EXPECT_EQ(RenderProgress(client::ProgressFraction(Progress()), ProgressParts(Progress()), 79),
            " 45% [==>  ]  92.2k/205k tok  loss 123  FVU 0.281  L0 63.9  1.03k/s  1m49s left");
}

TEST(ProgressPartsTest, BeforeTheFirstStepThereAreNoFiguresAndThePhaseIsShown) {
  v1::JobProgress progress;
  client::AddProgressValues(progress, {{"total_tokens", 204'800}});
  progress.set_phase("initializing");
  EXPECT_EQ(RenderPlainProgress(client::ProgressFraction(progress), ProgressParts(progress)),
            "0%  0/205k tok  initializing");
  EXPECT_EQ(client::ProgressFraction(v1::JobProgress()), 0);
}

TEST(ProgressPartsTest, WithoutASpeedTheTimeLeftIsUnknown) {
  v1::JobProgress progress = Progress();
  progress.mutable_remaining()->set_seconds(3600 * 5);
  EXPECT_THAT(ProgressParts(progress).back().text, testing::HasSubstr("5h"));
  progress.clear_remaining();
  progress.clear_values();
  EXPECT_EQ(ProgressParts(progress).back().text, "? left");
}

TEST(ProgressPartsTest, ValuesOfAnotherKindAreShownByName) {
  v1::JobProgress progress;
  progress.set_step(30);
  progress.set_total_steps(120);
  progress.set_phase("counting");
  client::AddProgressValues(progress, {{"heads", 12}});
  progress.mutable_values(0)->set_unit("heads/s");
  EXPECT_EQ(RenderPlainProgress(client::ProgressFraction(progress), ProgressParts(progress)),
            "25%  30/120  heads 12 heads/s  counting");
}

TEST(EventLineTest, ChangesOfStateAndOtherEvents) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(1'796'000'000);
  event.set_from_state(v1::JOB_STATE_RUNNING);
  event.set_to_state(v1::JOB_STATE_RECOVERING);
  event.set_reason("WORKER_LOST");
  event.set_message("the worker is gone");
  EXPECT_EQ(EventLine(event), "2026-11-30 00:53:20Z  RUNNING -> RECOVERING  the worker is gone");
  event.set_to_state(v1::JOB_STATE_RUNNING);
  event.set_reason("CHECKPOINT");
  event.set_message("step 40");
  EXPECT_EQ(EventLine(event), "2026-11-30 00:53:20Z  CHECKPOINT  step 40");
}

TEST(EvaluationLineTest, TheFiguresThatCountInAFixedOrder) {
  v1::MetricPoint point;
  point.mutable_time()->set_seconds(1'796'000'000);
  point.set_step(40);
  point.set_tokens(81'920);
  (*point.mutable_values())["l0"] = 63.5;
  (*point.mutable_values())["fvu"] = 0.28139;
  (*point.mutable_values())["something_else"] = 1;
  EXPECT_EQ(EvaluationLine(point),
            "2026-11-30 00:53:20Z  EVALUATION  step 40  tokens 81.9k  fvu 0.2814  l0 63.5");
}

}  // namespace
}  // namespace lorsa::cli

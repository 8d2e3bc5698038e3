#include "client/cli/progress_display.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace lorsa::cli {
namespace {

const std::vector<ProgressPart>& Parts() {
  static const auto& parts =
      *new std::vector<ProgressPart>{{"92.2k/205k tok", 3}, {"loss 123.4", 4},  {"FVU 0.2814", 5},
                                     {"L0 63.9", 1},        {"1.03k tok/s", 2}, {"1m49s left", 6}};
  return parts;
}

TEST(RenderProgressTest, AtEachWidthWhatFitsIsShown) {
  EXPECT_EQ(RenderProgress(0.45, Parts(), 20), " 45% [=====>       ]");
  EXPECT_EQ(RenderProgress(0.45, Parts(), 80),
            " 45% [===>    ]  92.2k/205k tok  loss 123.4  FVU 0.2814  1.03k tok/s  1m49s left");
  EXPECT_EQ(RenderProgress(0.45, Parts(), 200),
            " 45% [==================>                     ]  92.2k/205k tok  loss 123.4  "
            "FVU 0.2814  L0 63.9  1.03k tok/s  1m49s left");
}

TEST(RenderProgressTest, NoWidthIsEverExceeded) {
  for (int width = 0; width <= 220; ++width) {
    for (const double fraction : {-1.0, 0.0, 0.3, 0.999, 1.0, 2.0}) {
      EXPECT_LE(RenderProgress(fraction, Parts(), width).size(), width) << width;
    }
  }
}

TEST(RenderProgressTest, TheBarIsFullAtTheEnd) {
  EXPECT_EQ(RenderProgress(1, {}, 20), "100% [=============]");
  EXPECT_EQ(RenderProgress(0, {}, 20), "  0% [>            ]");
}

class ProgressDisplayTest : public testing::Test {
 protected:
  std::ostringstream stream_;
  absl::Time time_ = absl::UnixEpoch();
  const std::function<absl::Time()> now_ = [this] { return time_; };
};

TEST_F(ProgressDisplayTest, APipeGetsALineEveryFiveSecondsAndEveryText) {
  const OutputStream out{.stream = stream_};
  ProgressDisplay display(out, now_);
  for (int second = 0; second < 11; ++second) {
    display.Update(second / 10.0, {{"x", 1}});
    time_ += absl::Seconds(1);
  }
  display.PrintLine("done");
  display.Clear();
  EXPECT_EQ(stream_.str(), "0%  x\n50%  x\n100%  x\ndone\n");
}

TEST_F(ProgressDisplayTest, ATerminalIsRedrawnInPlaceAndTextStaysAboveTheBar) {
  const OutputStream out{.stream = stream_, .is_terminal = true, .width = [] { return 21; }};
  {
    ProgressDisplay display(out, now_);
    display.PrintLine("first");
    display.Update(0, {});
    display.Update(0.5, {});  // Too soon.
    time_ += absl::Seconds(1);
    display.Update(1, {});
    display.PrintLine("second\x1b");
  }
  EXPECT_EQ(stream_.str(),
            "first\n"
            "\r\x1b[K  0% [>            ]"
            "\r\x1b[K100% [=============]"
            "\r\x1b[Ksecond?\n"
            "\r\x1b[K100% [=============]"
            "\r\x1b[K");
}

}  // namespace
}  // namespace lorsa::cli

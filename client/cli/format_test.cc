#include "client/cli/format.h"

#include <gtest/gtest.h>

namespace lorsa::cli {
namespace {

TEST(FormatTest, Counts) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1'234'567), "1,234,567");
  EXPECT_EQ(FormatCount(-123), "-123");
  EXPECT_EQ(FormatCount(-1'234), "-1,234");
}

TEST(FormatTest, ShortCountsHaveThreeDigits) {
  EXPECT_EQ(FormatShortCount(999), "999");
  EXPECT_EQ(FormatShortCount(92'160), "92.2k");
  EXPECT_EQ(FormatShortCount(204'800), "205k");
  EXPECT_EQ(FormatShortCount(999'499), "999k");
  EXPECT_EQ(FormatShortCount(999'500), "1M");
  EXPECT_EQ(FormatShortCount(1e13), "10T");
  EXPECT_EQ(FormatShortCount(5e18), "5000P");
}

TEST(FormatTest, Bytes) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1'250), "1.25 kB");
  EXPECT_EQ(FormatBytes(302'514'176), "303 MB");
}

TEST(FormatTest, TimeSpans) {
  EXPECT_EQ(FormatTimeSpan(absl::Seconds(-1)), "0s");
  EXPECT_EQ(FormatTimeSpan(absl::Seconds(59.9)), "59s");
  EXPECT_EQ(FormatTimeSpan(absl::Seconds(109)), "1m49s");
  EXPECT_EQ(FormatTimeSpan(absl::Minutes(125)), "2h05m");
  EXPECT_EQ(FormatTimeSpan(absl::Hours(76)), "3d04h");
  EXPECT_EQ(FormatTimeSpan(absl::InfiniteDuration()), "?");
}

TEST(FormatTest, PercentReachesAHundredOnlyAtTheEnd) {
  EXPECT_EQ(FormatPercent(0), "0%");
  EXPECT_EQ(FormatPercent(0.9999), "99%");
  EXPECT_EQ(FormatPercent(1), "100%");
  EXPECT_EQ(FormatPercent(1.5), "100%");
  EXPECT_EQ(FormatPercent(-1), "0%");
}

TEST(FormatTest, TimesStatesAndIds) {
  google::protobuf::Timestamp time;
  time.set_seconds(1'796'000'000);
  EXPECT_EQ(FormatTime(time), "2026-11-30 00:53:20Z");
  EXPECT_EQ(FormatState(v1::JOB_STATE_RUNNING), "RUNNING");
  EXPECT_EQ(FormatState(v1::JOB_STATE_UNSPECIFIED), "-");
  EXPECT_EQ(IdOf("jobs/demo"), "demo");
  EXPECT_EQ(IdOf("demo"), "demo");
}

TEST(FormatTest, ControlCharactersDoNotReachTheTerminal) {
  EXPECT_EQ(Printable("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(Printable("\x1b[2J\r\x7f"), "?[2J??");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J"),
            "?2J");  // U+009B is CSI, as ESC [ is.
  EXPECT_EQ(Printable("d = 3 \xc2\xb5m \xc2"), "d = 3 \xc2\xb5m \xc2");
}

}  // namespace
}  // namespace lorsa::cli

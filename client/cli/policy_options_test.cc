#include "client/cli/policy_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lorsa::cli {
namespace {

using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

const absl::Time kNow = absl::FromUnixSeconds(1'796'000'000);

TEST(PolicyOptionsTest, TimeSpansHaveUnits) {
  EXPECT_EQ(ParseTimeSpan("90s").value(), absl::Seconds(90));
  EXPECT_EQ(ParseTimeSpan("1h30m").value(), absl::Minutes(90));
  EXPECT_EQ(ParseTimeSpan("7d").value(), absl::Hours(168));
  for (const char* text : {"", "7", "0s", "-1h", "d", "1.5d", "inf", "soon"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTimeSpan(text).status())) << text;
  }
}

TEST(PolicyOptionsTest, NothingGivenIsTheDefaultPolicy) {
  EXPECT_EQ(MakePolicy({}, kNow)->ByteSizeLong(), 0);
}

TEST(PolicyOptionsTest, EachOptionBecomesItsField) {
  const auto policy = MakePolicy({.priority = 3,
                                  .labels = {"team=interp", "note="},
                                  .ttl = "30d",
                                  .deadline = "12h",
                                  .step_timeout = "5m",
                                  .webhook = "https://example.org/hook"},
                                 kNow);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->priority(), 3);
  EXPECT_THAT(policy->labels(), UnorderedElementsAre(Pair("team", "interp"), Pair("note", "")));
  EXPECT_EQ(policy->ttl().seconds(), 30 * 24 * 3600);
  EXPECT_EQ(policy->deadline().seconds(), absl::ToUnixSeconds(kNow) + 12 * 3600);
  EXPECT_EQ(policy->step_timeout().seconds(), 300);
  EXPECT_EQ(policy->webhook(), "https://example.org/hook");
}

TEST(PolicyOptionsTest, ADeadlineMayBeAPointInTime) {
  const auto policy = MakePolicy({.deadline = "2026-12-24T18:00:00Z"}, kNow);
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->deadline().seconds(), 1798135200);
}

TEST(PolicyOptionsTest, WhatCannotBeReadIsNamed) {
  EXPECT_THAT(std::string(MakePolicy({.ttl = "soon"}, kNow).status().message()),
              HasSubstr("--ttl: 'soon'"));
  EXPECT_THAT(std::string(MakePolicy({.deadline = "soon"}, kNow).status().message()),
              HasSubstr("--deadline: 'soon'"));
  EXPECT_THAT(std::string(MakePolicy({.labels = {"team"}}, kNow).status().message()),
              HasSubstr("--label: 'team' is not KEY=VALUE"));
}

}  // namespace
}  // namespace lorsa::cli

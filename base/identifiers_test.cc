#include "base/identifiers.h"

#include <gtest/gtest.h>

namespace lorsa {
namespace {

TEST(IdentifiersTest, AcceptsWhatTheRuleNames) {
  EXPECT_TRUE(ValidateId("job id", "smollm2-l12").ok());
  EXPECT_TRUE(ValidateId("job id", "0").ok());
  EXPECT_TRUE(ValidateId("job id", "a_b.c-1").ok());
  EXPECT_TRUE(ValidateId("job id", std::string(63, 'a')).ok());
}

TEST(IdentifiersTest, RefusesWhatCouldLeaveTheFolder) {
  for (const std::string id : {"", ".", "..", "../x", "a/b", "-a", "A", "ä", "a b"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ValidateId("job id", id))) << id;
  }
  EXPECT_FALSE(ValidateId("job id", std::string(64, 'a')).ok());
  EXPECT_FALSE(ValidateId("job id", absl::string_view("a\0b", 3)).ok());
}

TEST(IdentifiersTest, AHugeIdDoesNotMakeAHugeMessage) {
  EXPECT_LT(ValidateId("job id", std::string(1 << 20, 'Z')).message().size(), 300);
}

TEST(IdentifiersTest, TakesTheIdOutOfAName) {
  EXPECT_EQ(*IdFromName("jobs", "jobs/a"), "a");
  EXPECT_FALSE(IdFromName("jobs", "job/a").ok());
  EXPECT_FALSE(IdFromName("jobs", "jobsa").ok());
  EXPECT_FALSE(IdFromName("jobs", "jobs/").ok());
  EXPECT_FALSE(IdFromName("jobs", "jobs/a/b").ok());
}

}  // namespace
}  // namespace lorsa

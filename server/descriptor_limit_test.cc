#include "server/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace lorsa::server {
namespace {

TEST(DescriptorLimit, IsTheHardOneUnlessToldOtherwise) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lowered = {.rlim_cur = before.rlim_max / 2, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  EXPECT_EQ(SetDescriptorLimit(0), absl::OkStatus());
  rlimit raised{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_EQ(raised.rlim_cur, before.rlim_max);
  EXPECT_EQ(raised.rlim_max, before.rlim_max);
  EXPECT_EQ(SetDescriptorLimit(0), absl::OkStatus()) << "nothing to raise";
  EXPECT_EQ(SetDescriptorLimit(600), absl::OkStatus());
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_EQ(raised.rlim_cur, 600);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(DescriptorLimit, AboveTheHardOneIsRefused) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(
      absl::IsInvalidArgument(SetDescriptorLimit(static_cast<int64_t>(before.rlim_max) + 1)));
}

}  // namespace
}  // namespace lorsa::server

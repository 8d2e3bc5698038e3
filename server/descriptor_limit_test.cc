#include "server/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace lorsa::server {
namespace {

TEST(DescriptorLimit, IsRaisedToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lowered = {.rlim_cur = before.rlim_max / 2, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  EXPECT_EQ(RaiseDescriptorLimit(), absl::OkStatus());
  rlimit raised{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_EQ(raised.rlim_cur, before.rlim_max);
  EXPECT_EQ(raised.rlim_max, before.rlim_max);
  EXPECT_EQ(RaiseDescriptorLimit(), absl::OkStatus()) << "nothing to raise";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace lorsa::server

#include "base/request_id.h"

#include <gtest/gtest.h>

namespace lorsa {
namespace {

TEST(RequestIdTest, NewOnesAreValidAndDiffer) {
  EXPECT_TRUE(IsRequestId(NewRequestId()));
  EXPECT_NE(NewRequestId(), NewRequestId());
}

TEST(RequestIdTest, WhatCouldForgeALineOfALogIsNone) {
  EXPECT_TRUE(IsRequestId("Az09-_."));
  EXPECT_TRUE(IsRequestId(std::string(64, 'a')));
  EXPECT_FALSE(IsRequestId(""));
  EXPECT_FALSE(IsRequestId(std::string(65, 'a')));
  EXPECT_FALSE(IsRequestId("a b"));
  EXPECT_FALSE(IsRequestId("a\nb"));
  EXPECT_FALSE(IsRequestId("a\"b"));
  EXPECT_FALSE(IsRequestId("\xc3\xa4"));
}

}  // namespace
}  // namespace lorsa

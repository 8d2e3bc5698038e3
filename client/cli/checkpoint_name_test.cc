#include "client/cli/checkpoint_name.h"

#include <gtest/gtest.h>

namespace lorsa::cli {
namespace {

TEST(CheckpointNameTest, AllFormsNameTheSameThings) {
  EXPECT_EQ(*CheckpointName("demo"), "jobs/demo/checkpoints/best");
  EXPECT_EQ(*CheckpointName("jobs/demo"), "jobs/demo/checkpoints/best");
  EXPECT_EQ(*CheckpointName("demo@best"), "jobs/demo/checkpoints/best");
  EXPECT_EQ(*CheckpointName("demo@latest"), "jobs/demo/checkpoints/latest");
  EXPECT_EQ(*CheckpointName("demo@1000"), "jobs/demo/checkpoints/step-000001000");
  EXPECT_EQ(*CheckpointName("demo@0"), "jobs/demo/checkpoints/step-000000000");
  EXPECT_EQ(*CheckpointName("demo@step-000001000"), "jobs/demo/checkpoints/step-000001000");
  EXPECT_EQ(*CheckpointName("jobs/demo/checkpoints/latest"), "jobs/demo/checkpoints/latest");
}

TEST(CheckpointNameTest, AnythingElseIsRefused) {
  for (const char* text : {"", "@best", "demo@", "a/b", "../x", "demo@-1", "demo@a/b",
                           "jobs/demo/checkpoints/", "jobs/demo/checkpoints/../x", "A@best"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckpointName(text).status())) << text;
  }
}

}  // namespace
}  // namespace lorsa::cli

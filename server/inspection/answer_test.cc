#include "server/inspection/answer.h"

#include <gtest/gtest.h>

#include <string>

namespace lorsa::server {
namespace {

TEST(AnswerTest, AVerdictGoesThrough) {
  const absl::Status damage = absl::DataLossError("shard-00001.h5: is damaged");
  std::string files;
  AnswerReader reader([&files](const std::string& name) { files += name + " "; });
  // In pieces of one byte, as a pipe may give them.
  for (const char c :
       FormatReading("shard-00000.h5") + FormatReading("shard-00001.h5") + FormatVerdict(damage)) {
    ASSERT_TRUE(reader.Take({&c, 1}));
  }
  EXPECT_EQ(reader.file(), "shard-00001.h5");
  EXPECT_EQ(files, "shard-00000.h5 shard-00001.h5 ");
  EXPECT_EQ(reader.verdict(), damage);
  AnswerReader fine;
  EXPECT_TRUE(fine.Take(FormatVerdict(absl::OkStatus())));
  EXPECT_EQ(fine.verdict(), absl::OkStatus());
}

TEST(AnswerTest, LineBreaksAndLongSentencesKeepTheForm) {
  AnswerReader reader;
  EXPECT_TRUE(reader.Take(FormatReading("a\nverdict 0 ")));
  EXPECT_FALSE(reader.verdict().has_value());
  EXPECT_TRUE(reader.Take(FormatVerdict(absl::DataLossError(std::string(1 << 20, 'x')))));
  EXPECT_TRUE(absl::IsDataLoss(*reader.verdict()));
}

TEST(AnswerTest, WhatHasNotTheFormIsRefused) {
  for (const char* answer :
       {"hello\n", "verdict\n", "verdict x y\n", "verdict 99 y\n", "verdict 16 unauthenticated\n",
        "verdict 0 \nverdict 0 \n", "verdict 0 \nreading more\n"}) {
    EXPECT_FALSE(AnswerReader().Take(answer)) << answer;
  }
  AnswerReader endless;  // keeps no more than a line
  EXPECT_TRUE(endless.Take("reading "));
  EXPECT_FALSE(endless.Take(std::string(kMaxAnswerLine, 'x')));
}

}  // namespace
}  // namespace lorsa::server

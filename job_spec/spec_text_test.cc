#include "job_spec/spec_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lorsa {
namespace {

using testing::HasSubstr;

std::string Error(const absl::StatusOr<v1::TrainingSpec>& spec) {
  EXPECT_TRUE(absl::IsInvalidArgument(spec.status())) << spec.status();
  return std::string(spec.status().message());
}

TEST(SpecTextTest, TextAndJsonGiveTheSame) {
  const auto text = ParseTrainingSpecText("t", "activation_set: 's' tokens: 10 rope { base: 5 }");
  const auto json =
      ParseTrainingSpecJson("j", R"({"activationSet": "s", "tokens": "10", "rope": {"base": 5}})");
  ASSERT_TRUE(text.ok()) << text.status();
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(text->SerializeAsString(), json->SerializeAsString());
}

TEST(SpecTextTest, AnErrorNamesLineAndColumn) {
  EXPECT_THAT(Error(ParseTrainingSpecText("a.textproto", "top_k: 1\nn_heads: 3")),
              HasSubstr("a.textproto:2:8: Message type \"lorsa.v1.TrainingSpec\" has no field"));
  EXPECT_THAT(Error(ParseTrainingSpecText("a", "top_k: -1")), HasSubstr("a:1:8"));
}

TEST(SpecTextTest, UnknownFieldsInJsonAreErrors) {
  EXPECT_THAT(Error(ParseTrainingSpecJson("a.json", R"({"n_heads": 3})")), HasSubstr("n_heads"));
}

TEST(SpecTextTest, ALongTextIsRefusedBeforeItIsParsed) {
  EXPECT_THAT(Error(ParseTrainingSpecText("a", std::string(kMaxSpecBytes + 1, ' '))),
              HasSubstr("at most 1048576 bytes"));
}

TEST(SpecTextTest, TheNameOfAFileTellsItsForm) {
  PosixFileSystem fs;
  const std::string json = testing::TempDir() + "/spec.json";
  const std::string text = testing::TempDir() + "/spec.textproto";
  ASSERT_TRUE(WriteFileAtomically(fs, json, R"({"top_k": 7})").ok());
  ASSERT_TRUE(WriteFileAtomically(fs, text, "top_k: 7").ok());
  EXPECT_EQ(ReadTrainingSpec(fs, json)->top_k(), 7);
  EXPECT_EQ(ReadTrainingSpec(fs, text)->top_k(), 7);
}

}  // namespace
}  // namespace lorsa

#include "job_spec/spec_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

namespace lorsa {
namespace {

using testing::HasSubstr;

class SpecTextTest : public testing::Test {
 protected:
  SpecTextTest() {
    folder_ = testing::TempDir() + "/spec_text";
    std::filesystem::create_directories(folder_);
  }
  absl::StatusOr<v1::TrainingSpec> Parse(const std::vector<std::string>& words,
                                         const std::string& input = "") {
    std::istringstream in(input);
    const auto text = ReadSpecText(words, in, fs_);
    if (!text.ok()) return text.status();
    return ParseSpec(*text);
  }
  std::string File(const std::string& name, const std::string& contents) {
    const std::string path = JoinPath(folder_, name);
    EXPECT_TRUE(WriteFileAtomically(fs_, path, contents).ok());
    return path;
  }
  void ExpectError(const absl::StatusOr<v1::TrainingSpec>& spec, absl::StatusCode code,
                   const std::string& text) {
    EXPECT_EQ(spec.status().code(), code);
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(text));
  }

  PosixFileSystem fs_;
  std::string folder_;
};

TEST_F(SpecTextTest, EverySourceAndFormatGivesTheSameSpecification) {
  const std::string text = "activation_set: \"a\" top_k: 64";
  const std::string json = " {\"activation_set\": \"a\", \"topK\": 64}";
  for (const auto& spec :
       {Parse({text}), Parse({json}), Parse({"activation_set:", "\"a\"", "top_k:", "64"}),
        Parse({"-"}, text), Parse({"-"}, json), Parse({File("a.textproto", text)}),
        Parse({File("a.json", json)}), Parse({File("name: with colon", text)})}) {
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->activation_set(), "a");
    EXPECT_EQ(spec->top_k(), 64);
    EXPECT_FALSE(spec->has_seed());
  }
}

TEST_F(SpecTextTest, ErrorsNameSourceLineAndColumn) {
  ExpectError(Parse({File("bad.textproto", "activation_set: \"a\"\n  top_k: x")}),
              absl::StatusCode::kInvalidArgument, "bad.textproto:2:10: ");
  ExpectError(Parse({"-"}, "tpo_k: 3"), absl::StatusCode::kInvalidArgument, "standard input:1:6: ");
  ExpectError(Parse({"{\"top_k\": }"}), absl::StatusCode::kInvalidArgument, "the command line: ");
}

TEST_F(SpecTextTest, UnknownFieldsAreErrorsInBothFormats) {
  ExpectError(Parse({"top_q: 3"}), absl::StatusCode::kInvalidArgument, "top_q");
  ExpectError(Parse({"{\"top_q\": 3}"}), absl::StatusCode::kInvalidArgument, "top_q");
}

TEST_F(SpecTextTest, AMissingFileSaysWhatElseIsPossible) {
  ExpectError(Parse({folder_ + "/missing"}), absl::StatusCode::kNotFound, "there is no file");
}

TEST_F(SpecTextTest, LengthIsBounded) {
  const std::string longest((1 << 20) + 1, ' ');
  ExpectError(Parse({"-"}, longest), absl::StatusCode::kResourceExhausted, "longer than 1048576");
  ExpectError(Parse({File("long", longest)}), absl::StatusCode::kResourceExhausted, "1048576");
}

TEST_F(SpecTextTest, DeepNestingIsAnErrorNotACrash) {
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "rope { ";
  EXPECT_FALSE(Parse({deep}).ok());
  std::string json;
  for (int i = 0; i < 10'000; ++i) json += "{\"rope\":";
  EXPECT_FALSE(Parse({json}).ok());
}

}  // namespace
}  // namespace lorsa

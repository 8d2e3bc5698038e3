#include "server/kinds/program_kind.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec Spec(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, spec.mutable_program()));
  return spec;
}

std::vector<std::string> WrongFields(const v1::JobSpec& spec) {
  const auto planned = ProgramKind({"/bin/true"}).Plan(spec, nullptr, "spec.program");
  std::vector<std::string> fields;
  for (const FieldViolation& violation : planned->violations) fields.push_back(violation.field);
  return fields;
}

TEST(ProgramKindTest, FillsInEveryDefaultAndTheContentsOfTheSet) {
  v1::ActivationSet set;
  set.set_manifest_sha256("of the manifest");
  const auto planned = ProgramKind({"/bin/true"}).Plan(Spec("kind: 'toy'"), &set, "spec.program");
  ASSERT_TRUE(planned.ok());
  const v1::ProgramSpec& resolved = planned->resolved.program();
  EXPECT_EQ(resolved.kind(), "toy");
  EXPECT_EQ(resolved.threads(), 1);
  EXPECT_EQ(resolved.keep_checkpoints(), 1);
  EXPECT_EQ(resolved.activation_set_sha256(), "of the manifest");
}

TEST(ProgramKindTest, NamesEveryFieldOutOfBounds) {
  v1::JobSpec spec = Spec("threads: 1025 memory_bytes: -1 keep_checkpoints: 1001");
  (*spec.mutable_program()->mutable_parameters()->mutable_fields())["text"].set_string_value(
      std::string(256 << 10, 'x'));
  EXPECT_THAT(WrongFields(spec),
              ElementsAre("parameters", "threads", "memory_bytes", "keep_checkpoints"));
  EXPECT_THAT(WrongFields(Spec("threads: 1024 memory_bytes: 1 keep_checkpoints: 1000")), IsEmpty());
}

TEST(ProgramKindTest, AProgramThatIsMissingIsAnObstacleThatNamesIt) {
  EXPECT_EQ(ProgramKind({"/bin/sh"}).Obstacle(), "");
  EXPECT_EQ(ProgramKind({"sh"}).Obstacle(), "") << "on the PATH";
  EXPECT_THAT(ProgramKind({"/none/worker"}).Obstacle(), HasSubstr("/none/worker is missing"));
  EXPECT_THAT(ProgramKind({"no-such-program-anywhere"}).Obstacle(), HasSubstr("is missing"));
}

}  // namespace
}  // namespace lorsa::server

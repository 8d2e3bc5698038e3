#include "job_spec/sweep.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "lorsa/v1/job_service.pb.h"

namespace lorsa {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

ExpandedSweep Expand(const std::string& text) {
  v1::CreateSweepRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return ExpandSweep(request.spec(), request.parameters());
}

std::vector<std::string> Refused(const std::string& text) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : Expand(text).violations) fields.push_back(violation.field);
  return fields;
}

std::string Values(const std::string& field, int count) {
  std::string text = absl::StrCat("parameters { field: '", field, "' ");
  for (int i = 1; i <= count; ++i) absl::StrAppend(&text, "values: '", i, "' ");
  return text + "}";
}

TEST(SweepTest, EachCombinationOnceTheLastParameterFastest) {
  const ExpandedSweep sweep = Expand(
      "spec { activation_set: 'set' tokens: 5 }"
      "parameters { field: 'top_k' values: '32' values: '64' }"
      "parameters { field: 'learning_rate' values: '1e-3' values: '0.003' }");
  ASSERT_THAT(sweep.violations, SizeIs(0));
  std::vector<std::string> values;
  for (const SweepCombination& combination : sweep.combinations) {
    values.push_back(combination.values);
    EXPECT_EQ(combination.spec.tokens(), 5);
  }
  EXPECT_THAT(values,
              ElementsAre("top_k: 32, learning_rate: 1e-3", "top_k: 32, learning_rate: 0.003",
                          "top_k: 64, learning_rate: 1e-3", "top_k: 64, learning_rate: 0.003"));
  EXPECT_EQ(sweep.combinations[3].spec.top_k(), 64);
  EXPECT_EQ(sweep.combinations[3].spec.learning_rate(), 0.003);
}

TEST(SweepTest, WordsTruthValuesAndStringsAreValuesToo) {
  const ExpandedSweep sweep = Expand(
      "parameters { field: 'activation_set' values: 'layer-6' values: 'layer-12' }"
      "parameters { field: 'selection' values: 'SELECTION_SIGNED' }"
      "parameters { field: 'decoder_bias' values: 'false' }");
  ASSERT_THAT(sweep.combinations, SizeIs(2));
  EXPECT_EQ(sweep.combinations[1].spec.activation_set(), "layer-12");
  EXPECT_EQ(sweep.combinations[1].spec.selection(), v1::SELECTION_SIGNED);
  EXPECT_FALSE(sweep.combinations[1].spec.decoder_bias());
}

TEST(SweepTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(Refused(""), ElementsAre("parameters"));
  EXPECT_THAT(Refused("parameters { field: 'no_such' values: '1' }"),
              ElementsAre("parameters[0].field"));
  EXPECT_THAT(Refused("parameters { field: 'rope' values: '{}' }"),
              ElementsAre("parameters[0].field"));
  EXPECT_THAT(Refused("parameters { field: 'top_k' }"), ElementsAre("parameters[0].values"));
  EXPECT_THAT(
      Refused("parameters { field: 'top_k' values: '-1' values: 'x' values: '1 2' }"),
      ElementsAre("parameters[0].values[0]", "parameters[0].values[1]", "parameters[0].values[2]"));
  EXPECT_THAT(Refused("parameters { field: 'learning_rate' values: '1e-3' values: '0.001' }"),
              ElementsAre("parameters[0].values[1]"));
  EXPECT_THAT(Refused(Values("top_k", 1) + Values("top_k", 1)), ElementsAre("parameters[1].field"));
  EXPECT_THAT(Refused("spec { top_k: 3 }" + Values("top_k", 1)),
              ElementsAre("parameters[0].field"));
}

TEST(SweepTest, CombinationsAreBounded) {
  EXPECT_THAT(Expand(Values("top_k", 16) + Values("seed", 16)).combinations, SizeIs(256));
  EXPECT_THAT(Refused(Values("top_k", 16) + Values("seed", 17)), ElementsAre("parameters"));
  EXPECT_THAT(Refused(Values("top_k", 257)), ElementsAre("parameters[0].values", "parameters"));
}

}  // namespace
}  // namespace lorsa

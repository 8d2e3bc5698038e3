#include "base/json_fields.h"

#include <gtest/gtest.h>

namespace lorsa {
namespace {

TEST(JsonFieldsTest, OnlyAnObjectOfBoundedDepthIsParsed) {
  EXPECT_TRUE(ParseJsonObject(R"({"a": {"b": 1}})", 2).ok());
  EXPECT_FALSE(ParseJsonObject(R"({"a": {"b": {"c": 1}}})", 2).ok());
  EXPECT_FALSE(ParseJsonObject("[1]", 2).ok());
  EXPECT_FALSE(ParseJsonObject(R"({"a": )", 2).ok());
  EXPECT_TRUE(ParseJsonObject(R"({"a]{[": "\\\"[{", "b": [{}]})", 3).ok());
  EXPECT_FALSE(ParseJsonObject(R"({"b": [{}]})", 2).ok());
}

TEST(JsonFieldsTest, AKeyThatComesTwiceIsRefused) {
  EXPECT_EQ(ParseJsonObject(R"({"a": 1, "b": {"c": 2, "c": 3}})", 2).status().message(),
            "the key 'c' comes twice");
  EXPECT_FALSE(ParseJsonObject(R"({"a": {"b": 1}, "a": {"b": 1}})", 2).ok());
  EXPECT_TRUE(ParseJsonObject(R"({"a": {"b": 1}, "c": {"b": 1}, "b": [{"b": 1}]})", 3).ok());
}

TEST(JsonFieldsTest, MembersAreTakenByTypeAndBound) {
  const auto json = *ParseJsonObject(R"({"t": "x", "i": 7, "r": 0.5, "b": true, "n": null})", 1);
  JsonFields fields(json, "");
  EXPECT_EQ(fields.Text("t"), "x");
  EXPECT_EQ(fields.Integer("i", 0, 10), 7);
  EXPECT_EQ(fields.Positive("r"), 0.5);
  EXPECT_TRUE(fields.Boolean("b"));
  EXPECT_EQ(fields.Nullable("n"), nullptr);
  EXPECT_TRUE(fields.Finish().ok());
}

TEST(JsonFieldsTest, TheFirstErrorNamesItsKey) {
  const auto json = *ParseJsonObject(R"({"i": 18446744073709551615, "r": -1})", 1);
  JsonFields fields(json, "outer");
  fields.Integer("i", 0, 10);
  fields.Positive("r");
  EXPECT_EQ(fields.Finish().message(), "'outer.i' is not a whole number from 0 to 10");
}

TEST(JsonFieldsTest, AnUnknownKeyIsRefused) {
  const auto json = *ParseJsonObject(R"({"a": 1, "surprise": 2})", 1);
  JsonFields fields(json, "");
  fields.Integer("a", 0, 10);
  EXPECT_EQ(fields.Finish().message(), "'surprise' is not a key of this format");
}

}  // namespace
}  // namespace lorsa

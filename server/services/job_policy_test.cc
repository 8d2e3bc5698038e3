#include "server/services/job_policy.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'796'000'000);

std::vector<std::string> Refused(const std::string& text) {
  v1::JobPolicy policy;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &policy)) << text;
  std::vector<std::string> fields;
  for (const FieldViolation& violation :
       PolicyViolations(policy, kNow, WebhookReceivers({"example.org"}))) {
    fields.push_back(violation.field);
  }
  return fields;
}

TEST(JobPolicyTest, BoundsThemselvesAreAllowed) {
  EXPECT_THAT(Refused(""), IsEmpty());
  EXPECT_THAT(Refused("priority: 1000 ttl { seconds: 1 } step_timeout { seconds: 10 }"
                      "deadline { seconds: 1796000000 nanos: 1 }"),
              IsEmpty());
  EXPECT_THAT(Refused("priority: -1000 ttl { seconds: 315360000 } step_timeout { seconds: 604800 }"
                      "labels { key: 'team' value: '' } labels { key: 'layer' value: '12' }"),
              IsEmpty());
}

TEST(JobPolicyTest, WhatIsBeyondThemIsNamed) {
  EXPECT_THAT(Refused("priority: 1001"), ElementsAre("policy.priority"));
  EXPECT_THAT(Refused("priority: -1001"), ElementsAre("policy.priority"));
  EXPECT_THAT(Refused("ttl { seconds: 0 }"), ElementsAre("policy.ttl"));
  EXPECT_THAT(Refused("ttl { seconds: 315360001 }"), ElementsAre("policy.ttl"));
  EXPECT_THAT(Refused("step_timeout { seconds: 9 }"), ElementsAre("policy.step_timeout"));
  EXPECT_THAT(Refused("step_timeout { seconds: 604801 }"), ElementsAre("policy.step_timeout"));
  EXPECT_THAT(Refused("deadline { seconds: 1796000000 }"), ElementsAre("policy.deadline"));
  EXPECT_THAT(Refused("deadline { seconds: 9000000000000000000 }"), ElementsAre("policy.deadline"));
  EXPECT_THAT(Refused("labels { key: 'Team' value: 'x' }"), ElementsAre("policy.labels"));
  EXPECT_THAT(Refused("labels { key: 'team' value: 'a b' }"), ElementsAre("policy.labels"));
}

TEST(JobPolicyTest, LabelsAreBoundedInNumber) {
  std::string labels;
  for (int i = 0; i < 32; ++i) absl::StrAppend(&labels, "labels { key: 'l", i, "' value: '' }");
  EXPECT_THAT(Refused(labels), IsEmpty());
  EXPECT_THAT(Refused(labels + "labels { key: 'one-more' value: '' }"),
              ElementsAre("policy.labels"));
}

TEST(JobPolicyTest, AWebhookIsOneOfTheReceiversThatAreAllowed) {
  EXPECT_THAT(Refused("webhook: 'https://example.org/hook'"), IsEmpty());
  EXPECT_THAT(Refused("webhook: 'https://example.com/hook'"), ElementsAre("policy.webhook"));
}

TEST(JobPolicyTest, EveryProblemIsToldAtOnce) {
  EXPECT_THAT(Refused("priority: 5000 ttl { seconds: -1 }"),
              ElementsAre("policy.priority", "policy.ttl"));
}

}  // namespace
}  // namespace lorsa::server

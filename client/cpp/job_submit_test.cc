#include "lorsa/client/job_submit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/identifiers.h"
#include "client/cpp/testing/fake_services.h"

namespace lorsa::client {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(GenerateJobIdTest, ItIsAValidIdWhateverTheSet) {
  const absl::Time now = absl::FromUnixSeconds(1'796'000'000);
  const auto random = [] { return uint64_t{0xabcdef12}; };
  EXPECT_EQ(GenerateJobId("smollm2-l12", now, random), "smollm2-l12-20261130-005320-ef12");
  EXPECT_EQ(GenerateJobId("", now, random), "job-20261130-005320-ef12");
  EXPECT_EQ(GenerateJobId("../x", now, random), "job-20261130-005320-ef12");
  const std::string longest = GenerateJobId(std::string(63, 'a'), now, random);
  EXPECT_TRUE(ValidateId("job id", longest).ok()) << longest;
}

TEST(ParseTrainingSpecTest, TextFormatAndJsonAreTheSame) {
  const auto text = ParseTrainingSpec("activation_set: 'a' top_k: 8");
  const auto json = ParseTrainingSpec(R"( {"activation_set": "a", "topK": 8})");
  ASSERT_TRUE(text.ok()) << text.status();
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(text->top_k(), 8);
  EXPECT_EQ(text->SerializeAsString(), json->SerializeAsString());
}

TEST(ParseTrainingSpecTest, AWrongFieldIsNamedWithItsPlace) {
  const auto spec = ParseTrainingSpec("activation_set: 'a'\ntop_q: 8");
  EXPECT_TRUE(absl::IsInvalidArgument(spec.status()));
  EXPECT_THAT(std::string(spec.status().message()), HasSubstr("the specification:2:6: "));
}

TEST(SubmitJobTest, IdsThatAreLeftOutAreFilledIn) {
  FakeServer server;
  const auto client = *Client::Create({.server = server.address()});
  v1::CreateJobRequest request;
  request.mutable_spec()->mutable_training()->set_activation_set("demo");
  ASSERT_TRUE(SubmitJob(*client, request).ok());
  ASSERT_TRUE(SubmitJob(*client, request).ok());
  const v1::CreateJobRequest& first = server.jobs.created.at(0);
  const v1::CreateJobRequest& second = server.jobs.created.at(1);
  EXPECT_THAT(first.job_id(), StartsWith("demo-20"));
  EXPECT_EQ(first.request_id().size(), 32);
  EXPECT_NE(first.request_id(), second.request_id());
}

TEST(SubmitJobTest, IdsThatAreGivenAreSent) {
  FakeServer server;
  const auto client = *Client::Create({.server = server.address()});
  v1::CreateJobRequest request;
  request.set_job_id("first");
  request.set_request_id("mine");
  const auto job = SubmitJob(*client, request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(server.jobs.created.at(0).job_id(), "first");
  EXPECT_EQ(server.jobs.created.at(0).request_id(), "mine");
}

}  // namespace
}  // namespace lorsa::client

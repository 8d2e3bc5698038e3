#include "client/cli/job_submit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/cli/testing/cli_test_base.h"

namespace lorsa::cli {
namespace {

using testing::HasSubstr;

constexpr char kSpec[] = "activation_set: \"smollm2-l12\" expansion_factor: 8 top_k: 64";

class JobSubmitTest : public CliTestBase {
 protected:
  const v1::CreateJobRequest& Sent() { return server_.jobs.created.at(0); }
};

TEST_F(JobSubmitTest, AnInlineSpecificationIsSentWithAnIdAndARequestId) {
  EXPECT_EQ(Run({"job", "submit", kSpec}), 0);
  EXPECT_EQ(Sent().spec().training().expansion_factor(), 8);
  EXPECT_EQ(Sent().job_id().find("smollm2-l12-20261130-005320-"), 0);
  EXPECT_EQ(Sent().request_id().size(), 32);
  EXPECT_FALSE(Sent().validate_only());
  EXPECT_EQ(out_.str(), "jobs/" + Sent().job_id() + " is queued. Watch it with: lorsa job watch " +
                            Sent().job_id() + "\n");
}

TEST_F(JobSubmitTest, FilesAndStandardInputAreRead) {
  const std::string file = folder_ + "/spec.textproto";
  ASSERT_TRUE(WriteFileAtomically(fs_, file, kSpec).ok());
  EXPECT_EQ(Run({"job", "submit", file, "--id", "first"}), 0);
  EXPECT_EQ(Sent().job_id(), "first");
  EXPECT_EQ(Sent().spec().training().top_k(), 64);

  in_.str(R"({"activation_set": "a", "top_k": 3})");
  EXPECT_EQ(Run({"job", "submit", "-", "--id", "second", "--json"}), 0);
  EXPECT_EQ(server_.jobs.created.at(1).spec().training().top_k(), 3);
  EXPECT_EQ(nlohmann::json::parse(out_.str())["state"], "JOB_STATE_QUEUED");
}

TEST_F(JobSubmitTest, ValidateOnlyShowsTheResolvedSpecification) {
  EXPECT_EQ(Run({"job", "submit", kSpec, "--validate-only", "--watch"}), 0);
  EXPECT_TRUE(Sent().validate_only());
  EXPECT_THAT(out_.str(), HasSubstr("top_k: 64\nseed: 0\n"));
  EXPECT_THAT(out_.str(), HasSubstr("# Memory: about 1.38 GB"));
  EXPECT_THAT(out_.str(), HasSubstr("# Time: about 4m12s"));
  EXPECT_TRUE(server_.jobs.jobs.empty());
}

TEST_F(JobSubmitTest, EveryViolationHasItsOwnLine) {
  server_.jobs.create_error = client::DetailedError(
      grpc::StatusCode::INVALID_ARGUMENT, "spec.top_k: above n_ov_heads; spec.tokens: zero",
      "INVALID_FIELDS", {{"spec.top_k", "above n_ov_heads"}, {"spec.tokens", "zero"}});
  EXPECT_EQ(Run({"job", "submit", kSpec}), kError);
  EXPECT_EQ(err_.str(),
            "lorsa: 2 fields are wrong:\n  spec.top_k: above n_ov_heads\n  spec.tokens: zero\n");
}

TEST_F(JobSubmitTest, TextThatDoesNotParseIsNotSent) {
  EXPECT_EQ(Run({"job", "submit", "activation_set: \"a\"\ntop_q: 64"}), kError);
  EXPECT_THAT(err_.str(), HasSubstr("lorsa: the command line:2:6: "));
  EXPECT_THAT(err_.str(), HasSubstr("top_q"));
  EXPECT_EQ(Run({"job", "submit", kSpec, "--id", "Not Valid"}), kError);
  EXPECT_TRUE(server_.jobs.created.empty());
}

}  // namespace
}  // namespace lorsa::cli

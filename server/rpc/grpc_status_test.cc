#include "server/rpc/grpc_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error_details.h"
#include "base/utf8.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace lorsa::server {
namespace {

google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

template <typename Message>
Message Unpacked(const google::rpc::Status& details, int index) {
  Message message;
  EXPECT_TRUE(details.details(index).UnpackTo(&message));
  return message;
}

TEST(Errors, OkStaysOk) { EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok()); }

TEST(Errors, CarryReasonDomainAndMetadata) {
  const grpc::Status status = ToGrpcStatus(WithReason(
      absl::FailedPreconditionError("the job has ended"), "JOB_ENDED", {{"job", "demo"}}));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "the job has ended");
  const google::rpc::Status details = DetailsOf(status);
  EXPECT_EQ(details.code(), static_cast<int>(grpc::StatusCode::FAILED_PRECONDITION));
  ASSERT_EQ(details.details_size(), 1);
  const auto info = Unpacked<google::rpc::ErrorInfo>(details, 0);
  EXPECT_EQ(info.reason(), "JOB_ENDED");
  EXPECT_EQ(info.domain(), "lorsa");
  EXPECT_EQ(info.metadata().at("job"), "demo");
}

TEST(Errors, WithoutAReasonCarryTheNameOfTheCode) {
  const auto details = DetailsOf(ToGrpcStatus(absl::NotFoundError("no such job")));
  EXPECT_EQ(Unpacked<google::rpc::ErrorInfo>(details, 0).reason(), "NOT_FOUND");
}

TEST(Errors, KeepTheFirstReason) {
  absl::Status status = WithReason(absl::AbortedError("x"), "INNER");
  EXPECT_EQ(ReasonOf(WithReason(status, "OUTER")), "INNER");
}

TEST(Errors, NameEveryWrongField) {
  const grpc::Status status = ToGrpcStatus(
      InvalidFields({{"spec.top_k", "must be at least 1"}, {"job_id", "is required"}}));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "spec.top_k: must be at least 1; job_id: is required");
  const auto bad_request = Unpacked<google::rpc::BadRequest>(DetailsOf(status), 1);
  ASSERT_EQ(bad_request.field_violations_size(), 2);
  EXPECT_EQ(bad_request.field_violations(1).field(), "job_id");
  EXPECT_EQ(bad_request.field_violations(1).description(), "is required");
}

TEST(Errors, AValidatorsErrorIsSaidOfItsField) {
  const auto status = ForField(absl::InvalidArgumentError("job id '' is not valid"), "name");
  const auto details = DetailsOf(ToGrpcStatus(status));
  EXPECT_EQ(Unpacked<google::rpc::BadRequest>(details, 1).field_violations(0).field(), "name");
  // Other codes and errors that already name a field pass unchanged.
  EXPECT_EQ(ForField(absl::NotFoundError("x"), "name"), absl::NotFoundError("x"));
  EXPECT_EQ(ForField(InvalidField("a", "b"), "name"), InvalidField("a", "b"));
}

TEST(Errors, StayWithinTheTrailersThatClientsAccept) {
  std::vector<FieldViolation> violations(5000, {std::string(300, 'f'), std::string(3000, 'd')});
  const grpc::Status status =
      ToGrpcStatus(WithReason(InvalidFields(violations), "X", {{"path", std::string(9000, 'p')}}));
  // Base64 makes 4 bytes of 3; the sentence travels twice.
  EXPECT_LT(status.error_details().size() * 4 / 3 + status.error_message().size(), 8000u);
  EXPECT_GE(Unpacked<google::rpc::BadRequest>(DetailsOf(status), 1).field_violations_size(), 1);
}

TEST(Errors, AreUtf8WhateverTheFileWasCalled) {
  const grpc::Status status =
      ToGrpcStatus(absl::DataLossError("shard \xff\xc3 (\xe2\x82\xac) is damaged"));
  EXPECT_EQ(status.error_message(), "shard ?? (\xe2\x82\xac) is damaged");
}

TEST(Utf8Prefix, CutsBetweenCharacters) {
  EXPECT_EQ(Utf8Prefix("a\xc3\xa9", 3), "a\xc3\xa9");
  EXPECT_EQ(Utf8Prefix("a\xc3\xa9", 2), "a");
  EXPECT_EQ(Utf8Prefix("", 2), "");
}

TEST(Utf8Prefix, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(Utf8Prefix("\xc0\xaf", 9), "??");            // overlong
  EXPECT_EQ(Utf8Prefix("\xed\xa0\x80", 9), "???");       // surrogate
  EXPECT_EQ(Utf8Prefix("\xf4\x90\x80\x80", 9), "????");  // above U+10FFFF
  EXPECT_EQ(Utf8Prefix("\xe2\x82", 9), "??");            // truncated
  EXPECT_EQ(Utf8Prefix("\xf0\x9f\x99\x82", 9), "\xf0\x9f\x99\x82");
}

}  // namespace
}  // namespace lorsa::server

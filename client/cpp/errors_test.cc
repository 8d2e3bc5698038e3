#include "lorsa/client/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/testing/fake_services.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace lorsa::client {
namespace {

TEST(ErrorsTest, OkIsOk) { EXPECT_TRUE(StatusFromGrpc(grpc::Status::OK).ok()); }

TEST(ErrorsTest, ViolationsFollowTheSentenceOneALine) {
  const absl::Status status = StatusFromGrpc(
      DetailedError(grpc::StatusCode::INVALID_ARGUMENT, "the specification does not hold",
                    "INVALID_SPEC", {{"top_k", "at most n_ov_heads"}, {"tokens", "at least 1"}}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "the specification does not hold\n  top_k: at most n_ov_heads\n  tokens: at least 1");
  EXPECT_EQ(ErrorReason(status), "INVALID_SPEC");
  EXPECT_FALSE(IsTransient(status));
}

TEST(ErrorsTest, WhatTheMessageSaysAlreadyIsNotSaidTwice) {
  const auto message = [](const std::string& sentence,
                          const std::vector<std::pair<std::string, std::string>>& violations) {
    return std::string(StatusFromGrpc(DetailedError(grpc::StatusCode::INVALID_ARGUMENT, sentence,
                                                    "INVALID_FIELDS", violations))
                           .message());
  };
  EXPECT_EQ(message("top_k: too large", {{"top_k", "too large"}}), "top_k: too large");
  EXPECT_EQ(message("a: is b; c: is d", {{"a", "is b"}, {"c", "is d"}}),
            "2 fields are wrong:\n  a: is b\n  c: is d");
}

TEST(ErrorsTest, TheRequestIsNamedWhereTheServersLogHelps) {
  const auto failed = [](grpc::StatusCode code) {
    google::rpc::RequestInfo info;
    info.set_request_id("r1");
    google::rpc::Status details;
    details.add_details()->PackFrom(info);
    return StatusFromGrpc(grpc::Status(code, "it went wrong", details.SerializeAsString()));
  };
  EXPECT_EQ(failed(grpc::StatusCode::INTERNAL).message(),
            "it went wrong\n  request r1 in the server's log");
  EXPECT_EQ(failed(grpc::StatusCode::NOT_FOUND).message(), "it went wrong");
  EXPECT_EQ(ErrorRequestId(failed(grpc::StatusCode::NOT_FOUND)), "r1");
  EXPECT_EQ(ErrorRequestId(ConnectionError("no server")), "");
}

TEST(ErrorsTest, DetailsThatCannotBeReadAreLeftOut) {
  const absl::Status status = StatusFromGrpc(
      grpc::Status(grpc::StatusCode::NOT_FOUND, "there is no jobs/x", "\xff\xff not a message"));
  EXPECT_EQ(status.message(), "there is no jobs/x");
  EXPECT_EQ(ErrorReason(status), "");
}

TEST(ErrorsTest, BrokenConnectionsAndUnavailableServersAreTransient) {
  using grpc::StatusCode;
  for (const grpc::Status& status :
       {grpc::Status(StatusCode::UNAVAILABLE, "Connection refused"),
        grpc::Status(StatusCode::CANCELLED, "CANCELLED"),
        grpc::Status(StatusCode::UNKNOWN, "Stream removed"),
        grpc::Status(StatusCode::INTERNAL, "Received RST_STREAM with error code 2"),
        DetailedError(StatusCode::UNAVAILABLE, "the server is stopping", "DRAINING")}) {
    EXPECT_TRUE(IsTransient(StatusFromGrpc(status))) << status.error_message();
  }
}

TEST(ErrorsTest, OtherErrorsAreNotTransient) {
  using grpc::StatusCode;
  for (const grpc::Status& status :
       {grpc::Status(StatusCode::INTERNAL, "a bug"), grpc::Status(StatusCode::UNIMPLEMENTED, ""),
        grpc::Status(StatusCode::ABORTED, "the file has changed")}) {
    EXPECT_FALSE(IsTransient(StatusFromGrpc(status))) << status.error_message();
  }
  // What a local disk says must not pass for a broken connection.
  EXPECT_FALSE(IsTransient(absl::UnavailableError("read a: Input/output error")));
}

}  // namespace
}  // namespace lorsa::client

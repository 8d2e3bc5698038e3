#include "server/rpc/call_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "base/error_details.h"
#include "base/request_id.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/rpc/calls_test_fixture.h"

namespace lorsa::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// What is logged during its life.
class CapturedLog {
 public:
  CapturedLog() {
    auto logger = std::make_shared<spdlog::logger>(
        "captured", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
    logger->set_pattern("level=%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream text_;
};

EndedCall SomeCall() {
  return {.method = "lorsa.v1.JobService.GetJob",
          .peer = "ipv4:127.0.0.1:4242",
          .request_id = "r1",
          .duration = absl::Milliseconds(250)};
}

TEST(FailedCallLogTest, ALineSaysWhatFailedForWhomAndWhy) {
  const CapturedLog log;
  FailedCallLog().Write(SomeCall(), WithReason(absl::NotFoundError("no job 'a\nb'"), "NO_JOB"));
  EXPECT_EQ(log.text(),
            "level=info event=call_failed method=lorsa.v1.JobService.GetJob code=NOT_FOUND "
            "reason=NO_JOB peer=ipv4:127.0.0.1:4242 seconds=0.250 request=r1 "
            "error=\"no job \\'a\\nb\\'\"\n");
}

TEST(FailedCallLogTest, FaultsOfTheServerAreWarningsAndCancellationsAreNot) {
  const CapturedLog log;
  FailedCallLog calls;
  calls.Write(SomeCall(), absl::InternalError("a"));
  calls.Write(SomeCall(), absl::CancelledError("b"));
  EXPECT_THAT(log.text(),
              AllOf(HasSubstr("level=warning event=call_failed"), Not(HasSubstr("CANCELLED"))));
}

TEST(FailedCallLogTest, AStormWritesAFewLinesASecondAndSaysHowManyItLeftOut) {
  const CapturedLog log;
  absl::Duration now = absl::Seconds(5);
  FailedCallLog calls([&now] { return now; });
  for (int i = 0; i < 1000; ++i) calls.Write(SomeCall(), absl::NotFoundError("storm"));
  const std::string storm = log.text();
  EXPECT_EQ(std::count(storm.begin(), storm.end(), '\n'), FailedCallLog::kLinesPerSecond);
  now += absl::Seconds(1);
  calls.Write(SomeCall(), absl::NotFoundError("after"));
  EXPECT_THAT(log.text(),
              AllOf(HasSubstr("event=failed_calls_not_logged count=980"), HasSubstr("after")));
}

// The records of real calls.
class CallRecordsTest : public Calls {
 protected:
  std::string Metrics() const {
    return prometheus::TextSerializer().Serialize(records_.collectable()->Collect());
  }
  // What the server says of a call with the metadata `request_id`, if that is not empty.
  grpc::Status Get(const std::string& request_id = "") {
    grpc::ClientContext context;
    if (!request_id.empty()) context.AddMetadata(kRequestIdHeader, request_id);
    v1::ServerInfo info;
    return v1::ServerInfoService::NewStub(channel_)->GetServerInfo(&context, {}, &info);
  }
};

TEST_F(CallRecordsTest, CountsEachCallOnceByItsCode) {
  info_.handler = [n = 0](const auto&, auto&) mutable -> absl::Status {
    return ++n == 1 ? absl::OkStatus() : absl::NotFoundError("x");
  };
  StartServer();
  EXPECT_TRUE(Get().ok());
  EXPECT_FALSE(Get().ok());
  EXPECT_FALSE(Get().ok());
  const std::string labels =
      R"(grpc_method="GetServerInfo",grpc_service="lorsa.v1.ServerInfoService")";
  EXPECT_THAT(
      Metrics(),
      AllOf(HasSubstr("grpc_server_started_total{" + labels + "} 3"),
            HasSubstr("grpc_server_handled_total{grpc_code=\"NOT_FOUND\"," + labels + "} 2"),
            HasSubstr("grpc_server_handled_total{grpc_code=\"OK\"," + labels + "} 1"),
            HasSubstr("grpc_server_handling_seconds_count{" + labels + "} 3")));
}

TEST_F(CallRecordsTest, AnErrorCarriesTheClientsRequestIdOrANewOne) {
  info_.handler = [](const auto&, auto&) { return absl::NotFoundError("x"); };
  StartServer();
  const auto id_of = [](const grpc::Status& status) {
    google::rpc::Status details;
    google::rpc::RequestInfo info;
    EXPECT_TRUE(details.ParseFromString(status.error_details()));
    for (const auto& detail : details.details()) detail.UnpackTo(&info);
    return info.request_id();
  };
  const CapturedLog log;
  EXPECT_EQ(id_of(Get("from-client")), "from-client");
  EXPECT_THAT(log.text(), HasSubstr("request=from-client "));
  const std::string made = id_of(Get("not \"valid\""));
  EXPECT_TRUE(IsRequestId(made));
  EXPECT_THAT(log.text(), HasSubstr("request=" + made + " "));
}

}  // namespace
}  // namespace lorsa::server

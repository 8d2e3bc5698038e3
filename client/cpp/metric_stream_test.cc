#include "lorsa/client/metric_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cpp/testing/fake_services.h"

namespace lorsa::client {
namespace {

using testing::ElementsAre;
using Writer = grpc::ServerWriter<v1::StreamMetricsResponse>;

void AddPoint(v1::StreamMetricsResponse& response, int64_t sequence) {
  v1::MetricPoint& point = *response.add_points();
  point.set_sequence(sequence);
  point.set_step(sequence * 10);
}

class MetricStreamTest : public testing::Test {
 protected:
  MetricStreamTest() {
    client_ = *Client::Create({.server = server_.address(),
                               .initial_backoff = absl::Milliseconds(5),
                               .max_backoff = absl::Milliseconds(20)});
    request_.set_job("jobs/a");
  }
  absl::StatusOr<v1::JobState> Run() {
    return StreamMetrics(
        *client_, request_,
        [this](const v1::MetricPoint& point) { sequences_.push_back(point.sequence()); }, nullptr);
  }

  FakeServer server_;
  std::unique_ptr<Client> client_;
  v1::StreamMetricsRequest request_;
  std::vector<int64_t> sequences_;
};

TEST_F(MetricStreamTest, ABrokenStreamIsResumedAfterTheLastPointWithoutDuplicates) {
  std::vector<int64_t> asked_after;
  server_.metrics.stream = [&](const v1::StreamMetricsRequest& request, Writer& writer) {
    asked_after.push_back(request.after_sequence());
    v1::StreamMetricsResponse response;
    AddPoint(response, 2);
    AddPoint(response, 5);
    if (asked_after.size() > 1) {  // Sends what the client has seen once more.
      AddPoint(response, 6);
      response.set_final_state(v1::JOB_STATE_CANCELLED);
    }
    writer.Write(response);
    return asked_after.size() > 1 ? grpc::Status::OK
                                  : grpc::Status(grpc::StatusCode::UNAVAILABLE, "cut");
  };
  const auto state = Run();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(*state, v1::JOB_STATE_CANCELLED);
  EXPECT_THAT(asked_after, ElementsAre(0, 5));
  EXPECT_THAT(sequences_, ElementsAre(2, 5, 6));
}

TEST_F(MetricStreamTest, AStreamWithoutFinalStateIsConnectedAgainUnlessOnlyHistoryWasAsked) {
  int connections = 0;
  server_.metrics.stream = [&](const v1::StreamMetricsRequest&, Writer& writer) {
    v1::StreamMetricsResponse response;
    AddPoint(response, ++connections);
    if (connections == 2) response.set_final_state(v1::JOB_STATE_SUCCEEDED);
    writer.Write(response);
    return grpc::Status::OK;
  };
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(connections, 2);

  connections = 0;
  request_.set_history_only(true);
  const auto state = Run();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(*state, v1::JOB_STATE_UNSPECIFIED);
  EXPECT_EQ(connections, 1);
}

}  // namespace
}  // namespace lorsa::client

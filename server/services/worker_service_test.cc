// Scripted workers and metric streams over real calls.
#include "server/services/worker_service.h"

#include "server/services/job_services_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class WorkerServiceTest : public JobServicesTest {
 protected:
  std::unique_ptr<grpc::ClientReader<v1::StreamMetricsResponse>> StreamMetrics(
      grpc::ClientContext& context, const std::string& id, bool history_only = false,
      int64_t after = 0) {
    v1::StreamMetricsRequest request;
    request.set_job("jobs/" + id);
    request.set_history_only(history_only);
    request.set_after_sequence(after);
    return metrics_->StreamMetrics(&context, request);
  }
};

TEST_F(WorkerServiceTest, RunsAJobFromHelloToItsOutcome) {
  auto worker = RunJob("demo");
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  worker->Say(MetricsMessage(1, 1));
  EXPECT_EQ(worker->Hear().metrics_acknowledged(), 1);
  FakeWorker staging = Launched();
  v1::WorkerMessage staged;
  *staged.mutable_checkpoint() = Stage(staging, 10);
  worker->Say(staged);
  const v1::ServerMessage published = worker->Hear();
  EXPECT_EQ(published.checkpoint_published().folder(), "step-000000010");
  EXPECT_EQ(published.checkpoint_published().error(), "");
  worker->Say(OutcomeMessage(v1::WorkerOutcome::KIND_SUCCEEDED));
  EXPECT_TRUE(worker->Hear().has_outcome_recorded());
  EXPECT_TRUE(worker->Finish().ok());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get("demo").latest_checkpoint(), "jobs/demo/checkpoints/step-000000010");
}

TEST_F(WorkerServiceTest, CommandReachesTheWorker) {
  auto worker = RunJob("demo");
  ASSERT_TRUE(manager_->PauseJob("demo").ok());
  // The server attaches the connection just after its welcome.
  for (v1::ServerMessage message; !message.has_command();) {
    Poll();
    message = worker->Hear();
    EXPECT_EQ(message.command(), v1::COMMAND_PAUSE);
  }
}

TEST_F(WorkerServiceTest, WithoutTheAttemptsTokenThereIsNoSession) {
  RunJob("demo");
  for (const char* token : {"", "not-a-token"}) {
    WorkerClient stranger(channel_, token);
    stranger.SayHello();
    const grpc::Status status = stranger.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << token;
  }
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
}

TEST_F(WorkerServiceTest, OlderAttemptIsSentAway) {
  auto older = RunJob("demo");
  const std::string token = Launched().bootstrap.token();
  launcher_.EndLast();
  Poll();
  const grpc::Status ended = older->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(ended), "STALE_ATTEMPT");
  WorkerClient again(channel_, token);
  again.SayHello();
  const grpc::Status refused = again.Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(refused), "STALE_ATTEMPT");
}

TEST_F(WorkerServiceTest, FirstMessageMustBeHelloAndOnlyThat) {
  auto worker = RunJob("demo");
  worker->SayHello();
  EXPECT_EQ(worker->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  WorkerClient rude(channel_, Launched().bootstrap.token());
  rude.Say(MetricsMessage(1, 1));
  EXPECT_EQ(rude.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
}

TEST_F(WorkerServiceTest, MetricStreamGivesHistoryThenLivePointsThenTheFinalState) {
  auto worker = RunJob("demo");
  worker->Say(MetricsMessage(1, 1));
  worker->Hear();
  grpc::ClientContext context;
  const auto stream = StreamMetrics(context, "demo");
  v1::StreamMetricsResponse message;
  ASSERT_TRUE(stream->Read(&message));
  ASSERT_THAT(message.points(), SizeIs(1));
  EXPECT_EQ(message.points(0).step(), 1);
  worker->Say(MetricsMessage(2, 2));
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.points(0).step(), 2);
  EXPECT_EQ(message.final_state(), v1::JOB_STATE_UNSPECIFIED);
  worker->Hear();
  worker->Say(OutcomeMessage(v1::WorkerOutcome::KIND_SUCCEEDED));
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_EQ(message.final_state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(WorkerServiceTest, HistoryOnlyStreamEnds) {
  auto worker = RunJob("demo");
  for (int64_t step = 1; step <= 3; ++step) {
    worker->Say(MetricsMessage(step, step));
    worker->Hear();
  }
  grpc::ClientContext context;
  const auto stream = StreamMetrics(context, "demo", /*history_only=*/true, /*after=*/1);
  v1::StreamMetricsResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_THAT(message.points(), SizeIs(2));
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(WorkerServiceTest, MetricsAreQueriedInPages) {
  auto worker = RunJob("demo");
  for (int64_t step = 1; step <= 3; ++step) {
    worker->Say(MetricsMessage(step, step));
    worker->Hear();
  }
  v1::QueryMetricsRequest request;
  request.set_job("jobs/demo");
  request.set_kind(v1::METRIC_KIND_TRAINING);
  request.set_page_size(2);
  v1::QueryMetricsResponse page;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(metrics_->QueryMetrics(&context, request, &page).ok());
  }
  EXPECT_THAT(page.points(), SizeIs(2));
  EXPECT_EQ(page.next_step(), 3);
  request.set_start_step(page.next_step());
  {
    grpc::ClientContext context;
    ASSERT_TRUE(metrics_->QueryMetrics(&context, request, &page).ok());
  }
  EXPECT_THAT(page.points(), SizeIs(1));
  EXPECT_FALSE(page.has_next_step());
  request.set_kind(v1::METRIC_KIND_UNSPECIFIED);
  grpc::ClientContext context;
  EXPECT_EQ(metrics_->QueryMetrics(&context, request, &page).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(WorkerServiceTest, HistoryIsThinnedAndNarrowedOnRequest) {
  auto worker = RunJob("demo");
  for (int64_t step = 1; step <= 6; ++step) {
    v1::WorkerMessage message = MetricsMessage(step, step);
    (*message.mutable_metrics()->mutable_points(0)->mutable_values())["fvu"] = 0.25;
    worker->Say(message);
    worker->Hear();
  }
  v1::StreamMetricsRequest stream_request;
  stream_request.set_job("jobs/demo");
  stream_request.set_history_only(true);
  stream_request.set_every_steps(3);
  stream_request.add_names("fvu");
  stream_request.add_names("no such");
  grpc::ClientContext stream_context;
  const auto stream = metrics_->StreamMetrics(&stream_context, stream_request);
  v1::StreamMetricsResponse message;
  ASSERT_TRUE(stream->Read(&message));
  ASSERT_THAT(message.points(), SizeIs(2));
  EXPECT_EQ(message.points(1).step(), 6);
  EXPECT_THAT(message.points(1).values(), UnorderedElementsAre(Pair("fvu", 0.25)));
  EXPECT_FALSE(stream->Read(&message));

  v1::QueryMetricsRequest request;
  request.set_job("jobs/demo");
  request.set_kind(v1::METRIC_KIND_TRAINING);
  request.set_max_points(2);
  request.add_names("loss");
  v1::QueryMetricsResponse thinned;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(metrics_->QueryMetrics(&context, request, &thinned).ok());
  }
  ASSERT_THAT(thinned.points(), SizeIs(2));
  EXPECT_EQ(thinned.points(0).step(), 1);
  EXPECT_EQ(thinned.points(1).step(), 6);
  EXPECT_THAT(thinned.points(1).values(), UnorderedElementsAre(Pair("loss", 0.5)));
  EXPECT_FALSE(thinned.has_next_step());
  request.set_page_size(5);
  grpc::ClientContext context;
  EXPECT_EQ(metrics_->QueryMetrics(&context, request, &thinned).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace lorsa::server

// What workers report, and who may report it.
#include "server/jobs/worker_sessions.h"

#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using WorkerSessionsTest = JobsTest;

// A worker of another release would misread the welcome.
TEST_F(WorkerSessionsTest, AWorkerOfAnotherVersionIsRefusedByName) {
  Create("demo");
  Poll();
  FakeWorker worker = Launched();
  worker.attempt = manager_->sessions().VerifyWorkerToken(worker.bootstrap.token()).value();
  v1::WorkerHello hello;
  hello.set_protocol(1);
  hello.set_program("lorsa-worker 0.0.9");
  const absl::Status refused = SayHello(worker.attempt, hello, worker.connection);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), "WORKER_VERSION");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("lorsa-worker 0.0.9"));
  EXPECT_THAT(worker.connection->messages, IsEmpty());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(Get("demo").reason(), "WORKER_VERSION");
  EXPECT_THAT(Get("demo").message(), HasSubstr("speaks version 1 of the worker protocol"));
}

TEST_F(WorkerSessionsTest, AWorkerOfAnotherVersionThatComesBackToANewServerIsReplaced) {
  FakeWorker old = Run("demo");
  v1::WorkerHello hello;
  hello.set_protocol(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(SayHello(old.attempt, hello, old.connection)));
  Advance(options_.max_backoff);
  FakeWorker next = LaunchAndConnect();
  EXPECT_EQ(next.attempt.attempt, 2);
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
}

TEST_F(WorkerSessionsTest, AWorkerThatRunsOtherKindsIsRefused) {
  Create("demo");
  Poll();
  FakeWorker worker = Launched();
  worker.attempt = manager_->sessions().VerifyWorkerToken(worker.bootstrap.token()).value();
  v1::WorkerHello hello;
  hello.add_kinds("digest");
  const absl::Status refused = SayHello(worker.attempt, hello, worker.connection);
  EXPECT_EQ(ReasonOf(refused), "WORKER_VERSION");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("runs no jobs of kind 'training'"));
}

TEST_F(WorkerSessionsTest, ProgressOutOfBoundsIsRefused) {
  FakeWorker worker = Run("demo");
  v1::WorkerMessage message;
  v1::JobProgress& progress = *message.mutable_heartbeat()->mutable_progress();
  for (int i = 0; i < 32; ++i) progress.add_values()->set_name(absl::StrCat("value", i));
  EXPECT_TRUE(Say(worker, message).ok());
  progress.add_values()->set_name("one too many");
  EXPECT_TRUE(absl::IsInvalidArgument(Say(worker, message)));
  progress.clear_values();
  progress.add_values()->set_name(std::string(65, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(Say(worker, message)));
}

TEST_F(WorkerSessionsTest, HelloStartsTheRunAndIsWelcomed) {
  FakeWorker worker = Run("demo");
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  ASSERT_THAT(worker.connection->messages, SizeIs(1));
  const v1::Welcome& welcome = worker.connection->messages[0].welcome();
  EXPECT_EQ(welcome.resolved_spec().training().activation_set(), "set");
  EXPECT_EQ(welcome.activation_set().name(), "activationSets/set");
  EXPECT_THAT(welcome.checkpoint_folders(), SizeIs(0));
  EXPECT_TRUE(Get("demo").has_start_time());
}

// An older catalog that was restored may know another set under the id.
TEST_F(WorkerSessionsTest, FailsAJobWhoseSetHasOtherContents) {
  const auto give = [this](const std::string& manifest_sha256) {
    return catalog_->UpdateActivationSet("set", [&](v1::ActivationSet& set) {
      set.set_manifest_sha256(manifest_sha256);
      return absl::OkStatus();
    });
  };
  ASSERT_TRUE(give("aa").ok());
  NewJob job{.id = "demo"};
  job.resolved_spec.mutable_training()->set_activation_set("set");
  job.resolved_spec.mutable_training()->set_activation_set_sha256("aa");
  ASSERT_TRUE(manager_->CreateJob(job).ok());
  Poll();
  FakeWorker worker = Launched();
  ASSERT_TRUE(give("bb").ok());
  EXPECT_EQ(ReasonOf(Connect(worker)), "STALE_ATTEMPT");
  EXPECT_THAT(worker.connection->messages, SizeIs(0));
  EXPECT_EQ(State("demo"), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("demo").reason(), "SET_CHANGED");
  EXPECT_THAT(Get("demo").message(), HasSubstr("activation set set has other contents"));
  EXPECT_EQ(ReasonOf(manager_->RetryJob("demo").status()), "SET_CHANGED");
  ASSERT_TRUE(give("aa").ok());
  EXPECT_TRUE(manager_->RetryJob("demo").ok());
}

TEST_F(WorkerSessionsTest, UnknownTokenIsUnauthenticated) {
  Run("demo");
  EXPECT_TRUE(
      absl::IsUnauthenticated(manager_->sessions().VerifyWorkerToken("no-such-token").status()));
  EXPECT_TRUE(absl::IsUnauthenticated(manager_->sessions().VerifyWorkerToken("").status()));
}

TEST_F(WorkerSessionsTest, OlderAttemptIsStaleInEveryWay) {
  FakeWorker stale = Run("demo");
  const v1::CheckpointStaged staged = Stage(stale, 10);
  launcher_.EndLast();
  Poll();
  Advance(options_.first_backoff);
  FakeWorker current = LaunchAndConnect();
  ASSERT_EQ(current.attempt.attempt, 2);

  EXPECT_EQ(ReasonOf(*stale.connection->ended), "STALE_ATTEMPT");
  v1::WorkerMessage checkpoint;
  *checkpoint.mutable_checkpoint() = staged;
  for (const absl::Status& status :
       {Connect(stale), SayHeartbeat(stale, 5), SayMetrics(stale, 1, {1}), Say(stale, checkpoint),
        SayOutcome(stale, v1::WorkerOutcome::KIND_SUCCEEDED)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(ReasonOf(status), "STALE_ATTEMPT");
  }
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  EXPECT_THAT(catalog_->ListCheckpoints("demo").value(), SizeIs(0));
  EXPECT_FALSE(fs_.Exists(Layout().CheckpointFolder("demo", 10)).value());
}

TEST_F(WorkerSessionsTest, AWorkerElsewhereIsToldTheEndpointAndNoPath) {
  options_.worker_endpoint = "gpu.example:7070";
  Restart();
  const FakeWorker worker = Run("demo");
  EXPECT_EQ(worker.bootstrap.endpoint(), "gpu.example:7070");
  EXPECT_EQ(worker.bootstrap.job(), "jobs/demo");
  EXPECT_THAT(worker.bootstrap.DebugString(), Not(HasSubstr(folder_)));
}

TEST_F(WorkerSessionsTest, AWorkerElsewhereIsWelcomedWithTheRollbacks) {
  options_.worker_endpoint = "gpu.example:7070";
  Restart();
  FakeWorker worker = Run("demo");
  EXPECT_EQ(worker.connection->messages[0].welcome().rollbacks(), "");
  ASSERT_TRUE(manager_->sessions().StoreRollbacks(worker.attempt, "the list").ok());
  ASSERT_TRUE(Connect(worker).ok());
  EXPECT_EQ(worker.connection->messages[0].welcome().rollbacks(), "the list");
}

TEST_F(WorkerSessionsTest, AnOlderAttemptStoresNoRollbacks) {
  const FakeWorker stale = Run("demo");
  launcher_.EndLast();
  Poll();
  const absl::Status status = manager_->sessions().StoreRollbacks(stale.attempt, "the list");
  EXPECT_EQ(ReasonOf(status), "STALE_ATTEMPT");
  EXPECT_FALSE(fs_.Exists(Layout().RollbacksFile("demo")).value());
}

// Its pid is another machine's; taken for one of this machine, the worker looked dead at once.
TEST_F(WorkerSessionsTest, AWorkerElsewhereIsNoProcessHere) {
  for (const std::string& endpoint : {std::string(), std::string("gpu.example:7070")}) {
    options_.worker_endpoint = endpoint;
    Restart();
    const std::string id = endpoint.empty() ? "here" : "elsewhere";
    Create(id);
    // As left by a server that ended between the launch and the record of it.
    ASSERT_TRUE(catalog_
                    ->UpdateJob(id, now_,
                                [&](const JobRecord&) -> absl::StatusOr<JobChange> {
                                  return JobChange{.state = v1::JOB_STATE_STARTING,
                                                   .new_attempt_token_sha256 = Sha256Hex(id)};
                                })
                    .ok());
    v1::WorkerHello hello;
    hello.set_pid(77);
    ASSERT_TRUE(SayHello({id, 1}, hello, std::make_shared<FakeConnection>()).ok());
    EXPECT_EQ(catalog_->GetJob(id)->worker.pid, endpoint.empty() ? 77 : 0);
    manager_->sessions().Disconnected({id, 1}, nullptr);
    ASSERT_TRUE(catalog_
                    ->UpdateJob(id, now_,
                                [](const JobRecord&) -> absl::StatusOr<JobChange> {
                                  return JobChange{.state = v1::JOB_STATE_FAILED};
                                })
                    .ok());
  }
}

TEST_F(WorkerSessionsTest, AttemptOfAnEndedJobIsStale) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  EXPECT_EQ(ReasonOf(Connect(worker)), "STALE_ATTEMPT");
}

TEST_F(WorkerSessionsTest, NewerConnectionReplacesTheOlder) {
  FakeWorker worker = Run("demo");
  const auto older = worker.connection;
  ASSERT_TRUE(Connect(worker).ok());
  EXPECT_TRUE(absl::IsAborted(*older->ended));
  EXPECT_FALSE(worker.connection->ended.has_value());
  // The older one's end, reported late, does not cut off the newer.
  manager_->sessions().Disconnected(worker.attempt, older.get());
  ASSERT_TRUE(manager_->PauseJob("demo").ok());
  Poll();
  EXPECT_THAT(worker.connection->commands(), ElementsAre(v1::COMMAND_PAUSE));
}

TEST_F(WorkerSessionsTest, ReconnectingChangesNoState) {
  FakeWorker worker = Run("demo");
  const int64_t revision = Get("demo").revision();
  manager_->sessions().Disconnected(worker.attempt, worker.connection.get());
  ASSERT_TRUE(Connect(worker).ok());
  EXPECT_EQ(Get("demo").revision(), revision);
}

TEST_F(WorkerSessionsTest, HeartbeatShowsProgressAndWhatTheWorkerWaitsFor) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(SayHeartbeat(worker, 41).ok());
  ASSERT_TRUE(SayHeartbeat(worker, 42, "DISK_FULL").ok());
  EXPECT_EQ(Get("demo").progress().step(), 42);
  EXPECT_EQ(Get("demo").waiting_for(), "DISK_FULL");
  const int64_t revision = Get("demo").revision();
  ASSERT_TRUE(SayHeartbeat(worker, 42, "DISK_FULL").ok());
  EXPECT_EQ(Get("demo").revision(), revision);
  ASSERT_TRUE(SayHeartbeat(worker, 43).ok());
  EXPECT_EQ(Get("demo").waiting_for(), "");
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  EXPECT_THAT(EventReasons("demo"),
              ElementsAre("CREATED", "", "WORKER_STARTED", "", "CONDITION", "CONDITION"));
}

TEST_F(WorkerSessionsTest, MetricsAreAcknowledgedOnceStoredAndNotStoredTwice) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(SayMetrics(worker, 1, {1, 2}).ok());
  EXPECT_EQ(worker.connection->messages.back().metrics_acknowledged(), 1);
  ASSERT_TRUE(Connect(worker).ok());
  ASSERT_TRUE(SayMetrics(worker, 1, {1, 2}).ok());
  EXPECT_EQ(worker.connection->messages.back().metrics_acknowledged(), 1);
  const auto points = catalog_->MetricsAfter("demo", 0, {}, 10).value().points;
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_EQ(points[1].sequence(), 2);
}

TEST_F(WorkerSessionsTest, MetricsOutOfBoundsAreRefusedAsAWhole) {
  FakeWorker worker = Run("demo");
  EXPECT_TRUE(absl::IsInvalidArgument(SayMetrics(worker, 0, {1})));
  EXPECT_TRUE(absl::IsInvalidArgument(SayMetrics(worker, 1, {1, -1})));
  EXPECT_TRUE(absl::IsInvalidArgument(SayMetrics(worker, 1, std::vector<int64_t>(257, 1))));
  v1::WorkerMessage message;
  message.mutable_metrics()->set_number(1);
  v1::MetricPoint& point = *message.mutable_metrics()->add_points();
  point.set_kind(v1::METRIC_KIND_TRAINING);
  for (int i = 0; i < 65; ++i) (*point.mutable_values())[absl::StrCat("m", i)] = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(Say(worker, message)));
  EXPECT_THAT(catalog_->MetricsAfter("demo", 0, {}, 10).value().points, SizeIs(0));
}

TEST_F(WorkerSessionsTest, OutcomeIsRecordedAnsweredAndEndsTheStream) {
  FakeWorker worker = Run("demo");
  v1::WorkerMessage message;
  message.mutable_outcome()->set_kind(v1::WorkerOutcome::KIND_FAILED);
  message.mutable_outcome()->set_reason("INVALID_DATA");
  message.mutable_outcome()->set_message("sequence 7 holds a NaN");
  ASSERT_TRUE(Say(worker, message).ok());
  EXPECT_TRUE(worker.connection->messages.back().has_outcome_recorded());
  EXPECT_TRUE(worker.connection->ended->ok());
  const v1::Job job = Get("demo");
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.reason(), "INVALID_DATA");
  EXPECT_EQ(job.message(), "sequence 7 holds a NaN");
  EXPECT_TRUE(job.has_end_time());
  EXPECT_FALSE(job.has_progress());
}

TEST_F(WorkerSessionsTest, OutcomeThatNobodyAskedForCountsAsALoss) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_PAUSED).ok());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
  EXPECT_THAT(Get("demo").message(), HasSubstr("left unasked with the outcome KIND_PAUSED"));
}

TEST_F(WorkerSessionsTest, MessageWithoutContentIsRefused) {
  FakeWorker worker = Run("demo");
  EXPECT_TRUE(absl::IsInvalidArgument(Say(worker, {})));
}

TEST_F(WorkerSessionsTest, HelloTellsWhoTheWorkerIsIfTheLaunchWasNotRecorded) {
  Create("demo");
  // As after a crash between the spawn and the record of its pid.
  ASSERT_TRUE(catalog_
                  ->UpdateJob("demo", now_,
                              [](const JobRecord&) -> absl::StatusOr<JobChange> {
                                return JobChange{.state = v1::JOB_STATE_STARTING,
                                                 .new_attempt_token_sha256 = Sha256Hex("token")};
                              })
                  .ok());
  const AttemptKey attempt = manager_->sessions().VerifyWorkerToken("token").value();
  v1::WorkerHello hello;
  hello.set_boot_id("boot");
  hello.set_pid(4711);
  hello.set_start_ticks(5);
  ASSERT_TRUE(SayHello(attempt, hello, std::make_shared<FakeConnection>()).ok());
  EXPECT_EQ(catalog_->GetJob("demo")->worker, (ProcessIdentity{"boot", 4711, 5}));
}

}  // namespace
}  // namespace lorsa::server

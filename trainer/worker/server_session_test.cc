#include "trainer/worker/server_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/worker/testing/fake_server.h"

namespace lorsa::worker {
namespace {

using testing::Each;
using testing::SizeIs;

constexpr absl::Duration kPatience = absl::Seconds(20);

class ServerSessionTest : public testing::Test {
 protected:
  void SetUp() override {
    endpoint_ = testing::TempDir() + "/endpoint_" +
                testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove(endpoint_);
    v1::WorkerBootstrap bootstrap;
    bootstrap.set_endpoint_file(endpoint_);
    bootstrap.set_token("secret");
    channel_ = std::make_unique<ServerChannel>(fs_, bootstrap);
  }

  void StartServer(SessionScript script = {}) {
    server_.reset();
    server_ = std::make_unique<FakeServer>(endpoint_, record_, std::move(script));
  }

  std::unique_ptr<ServerSession> Connect(SessionOptions options = {}) {
    options.heartbeat_interval = absl::Milliseconds(20);
    options.min_backoff = absl::Milliseconds(10);
    options.max_backoff = absl::Milliseconds(50);
    return std::make_unique<ServerSession>(*channel_, ProcessIdentity{"boot", 7, 9}, options);
  }

  static v1::MetricPoint Point(int64_t step) {
    v1::MetricPoint point;
    point.set_step(step);
    return point;
  }

  static v1::WorkerOutcome Succeeded() {
    v1::WorkerOutcome outcome;
    outcome.set_kind(v1::WorkerOutcome::KIND_SUCCEEDED);
    return outcome;
  }

  // Steps of all points received, in order of batch; a batch sent twice counts once.
  std::vector<int64_t> Steps() {
    absl::MutexLock lock(&record_.mutex);
    std::vector<int64_t> steps;
    for (const auto& [number, batch] : record_.batches) {
      for (const auto& point : batch.points()) steps.push_back(point.step());
    }
    return steps;
  }

  static std::vector<int64_t> Range(int64_t end) {
    std::vector<int64_t> range;
    for (int64_t i = 0; i < end; ++i) range.push_back(i);
    return range;
  }

  PosixFileSystem fs_;
  std::string endpoint_;
  SessionRecord record_;
  std::unique_ptr<ServerChannel> channel_;
  std::unique_ptr<FakeServer> server_;
};

TEST_F(ServerSessionTest, WelcomeMetricsAndOutcomeArrive) {
  StartServer();
  auto session = Connect();
  const auto welcome = session->Start();
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  EXPECT_EQ(welcome->resolved_spec().training().activation_set(), "set");
  for (int64_t step = 0; step < 1000; ++step) ASSERT_TRUE(session->AddMetrics(Point(step)).ok());
  ASSERT_TRUE(session->Finish(Succeeded(), kPatience).ok());
  EXPECT_EQ(Steps(), Range(1000));
  absl::MutexLock lock(&record_.mutex);
  EXPECT_THAT(record_.outcomes, SizeIs(1));
  EXPECT_THAT(record_.tokens, Each("Bearer secret"));
}

TEST_F(ServerSessionTest, WaitsForAServerThatIsNotThereYet) {
  auto session = Connect();
  absl::SleepFor(absl::Milliseconds(100));
  StartServer();
  EXPECT_TRUE(session->Start().ok());
}

TEST_F(ServerSessionTest, BrokenConnectionsLoseAndDoubleNoMetric) {
  StartServer({.break_after_batches = 3});
  auto session = Connect();
  ASSERT_TRUE(session->Start().ok());
  for (int64_t step = 0; step < 4000; ++step) ASSERT_TRUE(session->AddMetrics(Point(step)).ok());
  ASSERT_TRUE(session->Finish(Succeeded(), kPatience).ok());
  EXPECT_EQ(Steps(), Range(4000));
  absl::MutexLock lock(&record_.mutex);
  EXPECT_GT(record_.hellos, 2);
  EXPECT_GT(record_.batches_received, record_.batches.size());  // some were sent twice
}

TEST_F(ServerSessionTest, ARestartedServerOnAnotherPortIsFound) {
  StartServer({.acknowledge_metrics = false});
  auto session = Connect();
  ASSERT_TRUE(session->Start().ok());
  ASSERT_TRUE(session->AddMetrics(Point(0)).ok());
  absl::SleepFor(absl::Milliseconds(100));
  StartServer();
  ASSERT_TRUE(session->Finish(Succeeded(), kPatience).ok());
  EXPECT_EQ(Steps(), Range(1));
}

TEST_F(ServerSessionTest, ACheckpointAskedForBeforeARestartIsAskedForAgain) {
  StartServer({.break_at_checkpoint = true});
  auto session = Connect();
  ASSERT_TRUE(session->Start().ok());
  std::thread restart([this] {
    absl::SleepFor(absl::Milliseconds(150));
    StartServer();
  });
  v1::CheckpointStaged staged;
  staged.set_folder("step-000000010");
  EXPECT_TRUE(session->PublishCheckpoint(staged).ok());
  restart.join();
  absl::MutexLock lock(&record_.mutex);
  EXPECT_GT(record_.staged.size(), 1u);
}

TEST_F(ServerSessionTest, MetricsOfAStepGoBeforeItsCheckpoint) {
  StartServer();
  auto session = Connect();
  ASSERT_TRUE(session->Start().ok());
  ASSERT_TRUE(session->AddMetrics(Point(10)).ok());
  v1::CheckpointStaged staged;
  staged.set_folder("step-000000010");
  ASSERT_TRUE(session->PublishCheckpoint(staged).ok());
  EXPECT_THAT(Steps(), SizeIs(1));
}

TEST_F(ServerSessionTest, WarningsReachTheServerBeforeACheckpointAndTheOutcome) {
  StartServer();
  auto session = Connect();
  v1::WorkerWarning early;
  early.set_message("before the welcome");
  session->AddWarning(early);
  ASSERT_TRUE(session->Start().ok());
  v1::WorkerWarning damaged;
  damaged.set_message("damaged");
  damaged.set_damaged_step(20);
  session->AddWarning(damaged);
  ASSERT_TRUE(session->Finish(Succeeded(), kPatience).ok());
  absl::MutexLock lock(&record_.mutex);
  ASSERT_EQ(record_.warnings.size(), 2u);
  EXPECT_EQ(record_.warnings[0].message(), "before the welcome");
  EXPECT_FALSE(record_.warnings[0].has_damaged_step());
  EXPECT_EQ(record_.warnings[1].damaged_step(), 20);
}

TEST_F(ServerSessionTest, AnErrorOfPublishingTellsWhetherToTryAgain) {
  StartServer({.publish_error = "no space", .publish_retriable = true});
  auto session = Connect();
  ASSERT_TRUE(session->Start().ok());
  v1::CheckpointStaged staged;
  staged.set_folder("step-000000010");
  EXPECT_TRUE(absl::IsResourceExhausted(session->PublishCheckpoint(staged)));
  StartServer({.publish_error = "damaged"});
  EXPECT_TRUE(absl::IsInternal(session->PublishCheckpoint(staged)));
}

TEST_F(ServerSessionTest, AStaleAttemptIsToldAndStopsAsking) {
  StartServer({.refuse = {grpc::StatusCode::FAILED_PRECONDITION, "attempt 1 is stale"}});
  auto session = Connect();
  EXPECT_TRUE(absl::IsFailedPrecondition(session->Start().status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(session->status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(session->AddMetrics(Point(0))));
  EXPECT_TRUE(absl::IsFailedPrecondition(session->Finish(Succeeded(), kPatience)));
}

// A server whose catalog cannot grow ends sessions with this; the worker used to take it for final.
TEST_F(ServerSessionTest, AServerWithoutRoomIsTriedAgain) {
  StartServer({.refuse = {grpc::StatusCode::RESOURCE_EXHAUSTED, "the disk is full"}});
  auto session = Connect();
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_TRUE(session->status().ok());
  StartServer();
  EXPECT_TRUE(session->Start().ok());
}

// Heartbeats are not answered, so hours without metrics used to count as hours without contact.
TEST_F(ServerSessionTest, AConnectionWithoutAnswersIsContact) {
  StartServer();
  auto session = Connect({.give_up_after = absl::Milliseconds(300)});
  ASSERT_TRUE(session->Start().ok());
  absl::SleepFor(absl::Milliseconds(500));
  StartServer();
  EXPECT_TRUE(session->AddMetrics(Point(1)).ok());
  EXPECT_TRUE(session->Finish(Succeeded(), kPatience).ok());
}

TEST_F(ServerSessionTest, AServerThatStaysAwayEndsTheSession) {
  auto session = Connect({.give_up_after = absl::Milliseconds(100)});
  EXPECT_TRUE(absl::IsUnavailable(session->Start().status()));
}

TEST_F(ServerSessionTest, CommandsArriveAndHeartbeatsCarryProgress) {
  StartServer({.command = v1::COMMAND_PAUSE});
  auto session = Connect();
  ASSERT_TRUE(session->Start().ok());
  v1::JobProgress progress;
  progress.set_step(42);
  session->SetProgress(progress);
  const auto arrived = [&] {
    absl::MutexLock lock(&record_.mutex);
    return !record_.heartbeats.empty() && record_.heartbeats.back().step() == 42;
  };
  const absl::Time deadline = absl::Now() + kPatience;
  while (!(arrived() && session->command() == v1::COMMAND_PAUSE) && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_TRUE(arrived());
  EXPECT_EQ(session->command(), v1::COMMAND_PAUSE);
}

// While metrics flow without a pause there is always something else to send.
TEST_F(ServerSessionTest, HeartbeatsAreNotStarvedByMetrics) {
  StartServer();
  auto session = Connect();
  ASSERT_TRUE(session->Start().ok());
  const absl::Time end = absl::Now() + absl::Milliseconds(300);
  for (int64_t step = 0; absl::Now() < end; ++step) {
    ASSERT_TRUE(session->AddMetrics(Point(step)).ok());
    absl::SleepFor(absl::Microseconds(200));
  }
  absl::MutexLock lock(&record_.mutex);
  EXPECT_GT(record_.heartbeats.size(), 3u);
}

}  // namespace
}  // namespace lorsa::worker

// Lost workers, restarts of the server, and the drain.
#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using RecoveryTest = JobsTest;

TEST_F(RecoveryTest, LostWorkerIsReplacedAfterABackoff) {
  Run("demo");
  launcher_.EndLast("was killed by signal 9 (Killed)");
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(Get("demo").reason(), "WORKER_LOST");
  EXPECT_THAT(Get("demo").message(), HasSubstr("its process was killed by signal 9 (Killed)"));
  Poll();
  EXPECT_THAT(launcher_.launched, SizeIs(1));
  Advance(options_.first_backoff);
  Poll();
  EXPECT_THAT(launcher_.launched, SizeIs(2));
  EXPECT_EQ(State("demo"), v1::JOB_STATE_STARTING);
  EXPECT_EQ(Get("demo").attempt(), 2);
}

// An outcome file of an attempt that a restored catalog forgot ended the new one of its number.
TEST_F(RecoveryTest, ANewAttemptBeginsWithoutWhatAnotherOfItsNumberLeft) {
  FakeWorker forgotten;
  forgotten.bootstrap.set_outcome_file(Layout().OutcomeFile("demo", 1));
  ASSERT_TRUE(fs_.CreateDirectories(Layout().AttemptFolder("demo", 1)).ok());
  LeaveOutcomeFile(forgotten, v1::WorkerOutcome::KIND_SUCCEEDED);
  Run("demo");
  launcher_.EndLast();
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
}

TEST_F(RecoveryTest, BackoffDoublesUpToItsBound) {
  options_.max_recoveries = 10;
  options_.max_backoff = absl::Seconds(5);
  Restart();
  Run("demo");
  for (const int seconds : {1, 2, 4, 5, 5}) {
    launcher_.EndLast();
    Poll();
    EXPECT_EQ(catalog_->GetJob("demo")->not_before - now_, absl::Seconds(seconds));
    Advance(absl::Seconds(seconds));
    LaunchAndConnect();
  }
}

TEST_F(RecoveryTest, ClockSetBackDoesNotHoldUpARecovery) {
  Run("demo");
  launcher_.EndLast();
  Poll();
  Advance(-absl::Hours(24));
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_STARTING);
}

TEST_F(RecoveryTest, JobThatMakesNoProgressFailsWithTheLastLinesOfItsLog) {
  Run("demo");
  LoseAndRecover();
  LoseAndRecover();
  ASSERT_TRUE(
      WriteFileAtomically(fs_, launcher_.launched.back().log_file, "loading\nout of memory\n")
          .ok());
  launcher_.EndLast();
  Poll();
  const v1::Job job = Get("demo");
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.reason(), "WORKER_LOST");
  EXPECT_THAT(job.message(), HasSubstr("lost 3 times without a new checkpoint"));
  EXPECT_EQ(job.log_tail(), "loading\nout of memory");
}

TEST_F(RecoveryTest, FailureThatTheWorkerReportsComesWithTheLastLinesOfItsLogToo) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(WriteFileAtomically(fs_, launcher_.launched.back().log_file, "NaN\n").ok());
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_FAILED).ok());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("demo").log_tail(), "NaN");
}

TEST_F(RecoveryTest, WorkersThatDieBeforeTheyHaveBegunAreGivenUpSooner) {
  options_.max_recoveries = 10;
  Restart();
  Create("demo");
  for (int attempt = 1; attempt <= options_.max_startup_failures; ++attempt) {
    Poll();
    EXPECT_EQ(State("demo"), v1::JOB_STATE_STARTING);
    launcher_.EndLast("exited with status 127");
    Poll();
    Advance(options_.max_backoff);
  }
  EXPECT_EQ(State("demo"), v1::JOB_STATE_FAILED);
  EXPECT_EQ(Get("demo").reason(), "STARTUP_CRASH");
  EXPECT_THAT(Get("demo").message(), HasSubstr("3 times before it had begun"));
  EXPECT_THAT(Get("demo").message(), HasSubstr("exited with status 127"));
}

// A reboot of the machine to which a wrapper takes workers failed every job that was queued.
TEST_F(RecoveryTest, AMachineThatCannotBeReachedIsTriedAgainAndAgain) {
  options_.worker_endpoint = "gpu.example:7070";
  Restart();
  Create("demo");
  launcher_.exit_status = 255;
  for (int attempt = 1; attempt <= 20; ++attempt) {
    Poll();
    ASSERT_EQ(State("demo"), v1::JOB_STATE_STARTING) << attempt;
    launcher_.EndLast("exited with status 255");
    Poll();
    ASSERT_EQ(Get("demo").reason(), "UNREACHABLE");
    EXPECT_THAT(Get("demo").message(), HasSubstr("exited with status 255"));
    Advance(options_.max_backoff);
  }
  launcher_.exit_status = 1;
  for (int attempt = 1; attempt <= options_.max_startup_failures; ++attempt) {
    Poll();
    launcher_.EndLast("exited with status 1");
    Poll();
    Advance(options_.max_backoff);
  }
  EXPECT_EQ(Get("demo").reason(), "STARTUP_CRASH");
}

// A machine that is away for a month made 43,200 attempts, with a row and a folder each.
TEST_F(RecoveryTest, AMachineThatStaysAwayLeavesOneAttempt) {
  options_.worker_endpoint = "server.example:7860";
  Restart();
  launcher_.exit_status = 255;
  Create("demo");
  std::vector<std::string> tokens;
  for (int attempt = 1; attempt <= 20; ++attempt) {
    Poll();
    tokens.push_back(Sha256Hex(Launched().bootstrap.token()));
    launcher_.EndLast("exited with status 255");
    Poll();
    ASSERT_EQ(Get("demo").reason(), "UNREACHABLE");
    Advance(options_.max_backoff);
  }
  EXPECT_EQ(Get("demo").attempt(), 20);
  EXPECT_THAT(fs_.List(Layout().AttemptsFolder("demo")).value(), ElementsAre("0020"));
  EXPECT_TRUE(catalog_->FindAttempt(tokens.back()).ok());
  tokens.pop_back();
  for (const std::string& token : tokens) {
    EXPECT_TRUE(absl::IsNotFound(catalog_->FindAttempt(token).status()));
  }
}

// The event of its start came after that of its end, and made the history a chain with two ends.
TEST_F(RecoveryTest, AWorkerThatEndedBeforeItsStartWasRecordedHasOneEnd) {
  Create("demo");
  launcher_.on_launch = [&] {
    FakeWorker worker = Launched();
    ASSERT_TRUE(Connect(worker).ok());
    ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  };
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(catalog_->ListEvents("demo", 0, 100).value().back().from_state(),
            v1::JOB_STATE_RUNNING);
}

TEST_F(RecoveryTest, OnlyLossesBeforeTheBeginningOneAfterTheOtherCount) {
  options_.max_recoveries = 10;
  Restart();
  Create("demo");
  for (int i = 0; i < 4; ++i) {
    Poll();
    launcher_.EndLast();
    Poll();
    Advance(options_.max_backoff);
    LoseAndRecover();  // One that says hello.
    launcher_.EndLast();
    Poll();
    Advance(options_.max_backoff);
  }
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
}

TEST_F(RecoveryTest, LossForWantOfMemoryIsNamed) {
  Run("demo");
  launcher_.EndLastForWantOfMemory();
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(Get("demo").reason(), "OUT_OF_MEMORY");
  EXPECT_THAT(Get("demo").message(), HasSubstr("because memory ran out"));
}

TEST_F(RecoveryTest, WorkerWithoutProgressIsStuckThoughItIsHeard) {
  FakeWorker worker = Run("demo");
  const auto beat = [&](int64_t step, const std::string& waiting_for = "") {
    ASSERT_TRUE(SayHeartbeat(worker, step, waiting_for).ok());
    Poll();
  };
  beat(1);
  for (absl::Duration passed; passed < options_.step_timeout; passed += absl::Seconds(30)) {
    Advance(absl::Seconds(30));
    beat(1, "DISK_FULL");  // It says why.
  }
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  beat(2);
  for (absl::Duration passed; passed < options_.step_timeout; passed += absl::Seconds(30)) {
    Advance(absl::Seconds(30));
    beat(2);
    ASSERT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  }
  Advance(absl::Seconds(30));
  beat(2);
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(Get("demo").reason(), "STUCK");
  EXPECT_THAT(launcher_.killed, SizeIs(1));
}

TEST_F(RecoveryTest, ThePolicyOfTheJobSaysHowLongAStepMayTake) {
  NewJob job{.id = "demo"};
  job.resolved_spec.mutable_training()->set_activation_set("set");
  job.policy.mutable_step_timeout()->set_seconds(10);
  ASSERT_TRUE(manager_->CreateJob(job).ok());
  FakeWorker worker = LaunchAndConnect();
  ASSERT_TRUE(SayHeartbeat(worker, 1).ok());
  Advance(absl::Seconds(10));
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  Advance(absl::Seconds(1));
  Poll();
  EXPECT_EQ(Get("demo").reason(), "STUCK");
}

TEST_F(RecoveryTest, JobThatReachesNewCheckpointsIsNeverGivenUp) {
  FakeWorker worker = Run("demo");
  for (int64_t step = 10; step <= 100; step += 10) {
    worker = LoseAndRecover();
    EXPECT_EQ(Publish(worker, Stage(worker, step)).error(), "");
  }
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(Get("demo").attempt(), 11);
}

TEST_F(RecoveryTest, RecoveringJobKeepsItsSlot) {
  Run("first");
  Create("second");
  launcher_.EndLast();
  Poll();
  Poll();
  EXPECT_EQ(State("second"), v1::JOB_STATE_QUEUED);
}

TEST_F(RecoveryTest, SilentWorkerIsKilledAndCountsAsLost) {
  FakeWorker worker = Run("demo");
  Advance(options_.silence_timeout);
  ASSERT_TRUE(SayHeartbeat(worker, 1).ok());
  Advance(options_.silence_timeout);
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  Advance(absl::Seconds(1));
  Poll();
  EXPECT_THAT(launcher_.killed, SizeIs(1));
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
  EXPECT_EQ(ReasonOf(*worker.connection->ended), "STALE_ATTEMPT");
}

// A finished worker was never looked at again and stayed a zombie.
TEST_F(RecoveryTest, WorkerIsReapedOnceItsJobHasEnded) {
  FakeWorker worker = Run("demo");
  Poll();
  EXPECT_THAT(launcher_.watched, ElementsAre(1001));
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  Poll();
  EXPECT_THAT(launcher_.watched, IsEmpty());
}

// Heartbeats behind a message are not read while the server handles it, and the silence was counted
// as the worker's.
TEST_F(RecoveryTest, WorkerIsNotSilentWhileTheServerHandlesItsMessage) {
  class SlowConnection final : public WorkerConnection {
   public:
    explicit SlowConnection(std::function<void()> on_send) : on_send_(std::move(on_send)) {}
    bool Send(v1::ServerMessage) override {
      on_send_();
      return true;
    }
    void End(absl::Status) override {}

   private:
    const std::function<void()> on_send_;
  };
  FakeWorker worker = Run("demo");
  // Answers within the handling of the message, which so takes longer than the timeout.
  SlowConnection connection([this] {
    Advance(options_.silence_timeout + absl::Seconds(1));
    Poll();
  });
  v1::WorkerMessage message;
  message.mutable_metrics()->set_number(1);
  ASSERT_TRUE(Say(worker, message, connection).ok());
  EXPECT_THAT(launcher_.killed, IsEmpty());
  Advance(options_.silence_timeout);
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  Advance(absl::Seconds(1));
  Poll();
  EXPECT_THAT(launcher_.killed, SizeIs(1)) << "silence counts again";
}

// A worker whose connection broke could not come back, and was killed for it.
TEST_F(RecoveryTest, SilenceDoesNotCountWhileTheServerTurnsConnectionsAway) {
  FakeWorker worker = Run("demo");
  deaf_ = true;
  for (int i = 0; i < 3; ++i) {
    Advance(options_.silence_timeout + absl::Seconds(1));
    Poll();
  }
  deaf_ = false;
  Advance(options_.silence_timeout);
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  EXPECT_THAT(launcher_.killed, IsEmpty());
  Advance(absl::Seconds(1));
  Poll();
  EXPECT_THAT(launcher_.killed, SizeIs(1)) << "silence counts again";
}

TEST_F(RecoveryTest, WorkerThatNeverSaysHelloIsKilledToo) {
  Create("demo");
  Poll();
  Poll();
  Advance(options_.silence_timeout + absl::Seconds(1));
  Poll();
  EXPECT_THAT(launcher_.killed, SizeIs(1));
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
}

// A worker program that was missing for a moment failed every queued job (STARTUP_CRASH).
TEST_F(RecoveryTest, JobsWaitWhileWorkersCannotBeSpawned) {
  launcher_.failing = true;
  Create("demo");
  for (int i = 0; i < 20; ++i) {
    Poll();
    EXPECT_EQ(State("demo"), v1::JOB_STATE_QUEUED);
    EXPECT_EQ(Get("demo").waiting_for(), "LAUNCH_FAILED");
    Advance(absl::Seconds(30));
  }
  EXPECT_THAT(Get("demo").waiting_message(), HasSubstr("Text file busy"));
  EXPECT_LE(Get("demo").attempt(), 12) << "tries come further and further apart";

  launcher_.failing = false;
  Advance(options_.max_backoff);
  FakeWorker worker = LaunchAndConnect();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
}

TEST_F(RecoveryTest, OneJobIsTriedWhileWorkersCannotBeSpawned) {
  options_.capacity.max_running_jobs = 5;
  Restart();
  launcher_.failing = true;
  for (const char* id : {"a", "b", "c"}) Create(id);
  Poll();
  EXPECT_EQ(Get("a").attempt() + Get("b").attempt() + Get("c").attempt(), 1);
}

// The loader's and a shell's word for a program or library that is not there.
TEST_F(RecoveryTest, JobsWaitWhileTheWorkerProgramCannotBeLoaded) {
  Create("demo");
  for (int i = 0; i < 5; ++i) {
    Poll();
    ASSERT_EQ(State("demo"), v1::JOB_STATE_STARTING) << i;
    launcher_.exit_status = 127;
    launcher_.EndLast("exited with status 127");
    Poll();
    EXPECT_EQ(State("demo"), v1::JOB_STATE_QUEUED);
    EXPECT_THAT(Get("demo").waiting_message(), HasSubstr("exited with status 127"));
    Advance(options_.max_backoff);
  }
}

TEST_F(RecoveryTest, OutcomeFileOfADeadWorkerCounts) {
  FakeWorker worker = Run("demo");
  LeaveOutcomeFile(worker, v1::WorkerOutcome::KIND_SUCCEEDED);
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING) << "while the process lives, it may still report";
  launcher_.EndLast("exited with status 0");
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(RecoveryTest, UnreadableOutcomeFileIsALoss) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(WriteFileAtomically(fs_, worker.bootstrap.outcome_file(), "kind: {{{").ok());
  launcher_.EndLast();
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
}

TEST_F(RecoveryTest, WorkerLostWhilePausingLeavesThePausedJobTheClientWanted) {
  Run("demo");
  ASSERT_TRUE(manager_->PauseJob("demo").ok());
  launcher_.EndLast();
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_PAUSED);
  EXPECT_EQ(Get("demo").reason(), "WORKER_LOST");
}

TEST_F(RecoveryTest, WorkerLostWhileCancellingIsCancelled) {
  Run("demo");
  ASSERT_TRUE(manager_->CancelJob("demo").ok());
  launcher_.EndLast();
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_CANCELLED);
}

TEST_F(RecoveryTest, ResumeForgetsEarlierRecoveries) {
  Run("demo");
  LoseAndRecover();
  LoseAndRecover();
  FakeWorker worker = Launched();
  ASSERT_TRUE(Connect(worker).ok());
  ASSERT_TRUE(manager_->PauseJob("demo").ok());
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_PAUSED).ok());
  ASSERT_TRUE(manager_->ResumeJob("demo").ok());
  LaunchAndConnect();
  LoseAndRecover();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
}

TEST_F(RecoveryTest, AfterARestartALiveWorkerComesBack) {
  FakeWorker worker = Run("demo");
  Restart();
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
  EXPECT_THAT(launcher_.launched, SizeIs(1));
  Advance(options_.silence_timeout - absl::Seconds(1));
  Poll();
  ASSERT_TRUE(Connect(worker).ok());
  ASSERT_TRUE(SayMetrics(worker, 1, {1}).ok());
  EXPECT_EQ(Get("demo").attempt(), 1);
}

TEST_F(RecoveryTest, AfterARestartALiveWorkerThatStaysAwayIsReplaced) {
  Run("demo");
  Restart();
  Poll();
  Advance(options_.silence_timeout + absl::Seconds(1));
  Poll();
  EXPECT_THAT(launcher_.killed, SizeIs(1));
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
}

TEST_F(RecoveryTest, AfterARestartADeadWorkerIsReplacedAndItsOutcomeFileCounts) {
  FakeWorker worker = Run("done");
  LeaveOutcomeFile(worker, v1::WorkerOutcome::KIND_SUCCEEDED);
  launcher_.EndLast();
  Restart();
  Poll();
  EXPECT_EQ(State("done"), v1::JOB_STATE_SUCCEEDED);
  Run("lost");
  launcher_.EndLast();
  Restart();
  Poll();
  EXPECT_EQ(State("lost"), v1::JOB_STATE_RECOVERING);
  Restart();
  Advance(options_.first_backoff);
  Poll();
  EXPECT_EQ(State("lost"), v1::JOB_STATE_STARTING);
}

TEST_F(RecoveryTest, AfterARestartRequestsOfClientsStand) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(manager_->PauseJob("demo").ok());
  Restart();
  ASSERT_TRUE(Connect(worker).ok());
  Poll();
  EXPECT_THAT(worker.connection->commands(), ElementsAre(v1::COMMAND_PAUSE));
}

// The scheduler looked at the first jobs of the queue only, so that many which a restarted server
// has no room for held up all later ones, without a reason.
TEST_F(RecoveryTest, StartsJobsBehindAnyNumberOfJobsThatAreTooLarge) {
  for (int i = 0; i < 100; ++i) {
    NewJob job{.id = absl::StrCat("large-", i), .memory_bytes = int64_t{2} << 30};
    job.resolved_spec.mutable_training()->set_activation_set("set");
    ASSERT_TRUE(manager_->CreateJob(job).ok());
  }
  Create("small");
  options_.capacity.memory_bytes = int64_t{1} << 30;
  Restart();
  Poll();
  EXPECT_EQ(State("small"), v1::JOB_STATE_STARTING);
  EXPECT_EQ(Get("large-99").waiting_for(), "LARGER_THAN_MACHINE");
  Create("next");
  Poll();
  EXPECT_EQ(Get("next").waiting_for(), "MAX_RUNNING_JOBS");
}

TEST_F(RecoveryTest, AfterARestartQueuedJobsStartByThemselves) {
  Create("demo");
  Restart();
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_STARTING);
}

TEST_F(RecoveryTest, AttemptWhoseLaunchWasCutOffIsReplacedAfterTheSilence) {
  Create("demo");
  ASSERT_TRUE(catalog_
                  ->UpdateJob("demo", now_,
                              [](const JobRecord&) -> absl::StatusOr<JobChange> {
                                return JobChange{.state = v1::JOB_STATE_STARTING,
                                                 .new_attempt_token_sha256 = "hash"};
                              })
                  .ok());
  Restart();
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_STARTING);
  Advance(options_.silence_timeout + absl::Seconds(1));
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RECOVERING);
  EXPECT_THAT(launcher_.killed, IsEmpty());
}

TEST_F(RecoveryTest, DrainTellsWorkersToLeaveAndTheNextServerGoesOn) {
  FakeWorker worker = Run("demo");
  manager_->BeginDrain();
  Poll();
  EXPECT_THAT(worker.connection->commands(), ElementsAre(v1::COMMAND_DRAIN));
  EXPECT_FALSE(manager_->AwaitDrained(absl::ZeroDuration()));
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_DRAINED).ok());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Get("demo").reason(), "DRAIN");
  Poll();
  EXPECT_TRUE(manager_->AwaitDrained(absl::ZeroDuration()));
  EXPECT_THAT(launcher_.launched, SizeIs(1));
  Restart();
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_STARTING);
  EXPECT_EQ(Get("demo").attempt(), 2);
}

TEST_F(RecoveryTest, DrainLaunchesNothing) {
  Create("demo");
  manager_->BeginDrain();
  Poll();
  EXPECT_TRUE(manager_->AwaitDrained(absl::ZeroDuration()));
  EXPECT_THAT(launcher_.launched, IsEmpty());
}

TEST_F(RecoveryTest, DrainReturnsAStartingJobToTheQueueAtOnce) {
  Create("demo");
  Poll();
  FakeWorker worker = Launched();
  manager_->BeginDrain();
  Poll();
  EXPECT_EQ(State("demo"), v1::JOB_STATE_QUEUED);
  EXPECT_THAT(launcher_.killed, SizeIs(1));
  EXPECT_EQ(ReasonOf(Connect(worker)), "STALE_ATTEMPT");
}

TEST_F(RecoveryTest, DrainOfAPausingJobPausesIt) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(manager_->PauseJob("demo").ok());
  manager_->BeginDrain();
  Poll();
  ASSERT_TRUE(SayOutcome(worker, v1::WorkerOutcome::KIND_DRAINED).ok());
  EXPECT_EQ(State("demo"), v1::JOB_STATE_PAUSED);
}

TEST_F(RecoveryTest, StoppedServerTellsWorkersToConnectAgain) {
  FakeWorker worker = Run("demo");
  manager_->Stop();
  EXPECT_TRUE(absl::IsUnavailable(*worker.connection->ended));
  EXPECT_EQ(State("demo"), v1::JOB_STATE_RUNNING);
}

}  // namespace
}  // namespace lorsa::server

#include "server/jobs/job_creator.h"

#include <csignal>

#include "base/failing_file_system.h"
#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class JobCreatorTest : public JobsTest {
 protected:
  JobCreatorTest() : source_(Run("source")) {
    EXPECT_EQ(Publish(source_, Stage(source_, 10, "weights", 0.5)).error(), "");
  }
  NewJob Forked(const std::string& id) {
    NewJob job{.id = id, .request = {.id = "r", .sha256 = "s"}};
    job.resolved_spec.mutable_training()->set_activation_set("set");
    job.resolved_spec.mutable_training()->set_keep_checkpoints(2);
    job.first_checkpoint = catalog_->GetCheckpoint("source", 10).value();
    job.forked_from = job.first_checkpoint->name();
    return job;
  }
  // One that starts from the weights alone.
  NewJob Started(const std::string& id) {
    NewJob job{.id = id, .request = {.id = "r", .sha256 = "s"}};
    job.resolved_spec.mutable_training()->set_activation_set("set");
    job.initial_checkpoint = catalog_->GetCheckpoint("source", 10).value();
    job.resolved_spec.mutable_training()->set_initial_checkpoint(job.initial_checkpoint->name());
    return job;
  }
  NewSweep SweepOf(const std::vector<std::string>& ids) {
    NewSweep sweep{.id = "sweep", .request = {.id = "r", .sha256 = "s"}};
    for (const std::string& id : ids) {
      sweep.jobs.push_back(Started(id));
      sweep.jobs.back().request = {};
    }
    return sweep;
  }
  std::string WeightsIn(const std::string& folder) {
    return ReadFile(fs_, JoinPath(folder, "lorsa.safetensors"), 1 << 20).value_or("");
  }
  std::string Weights(const std::string& id) {
    return WeightsIn(Layout().CheckpointFolder(id, 10));
  }
  std::string InitialWeights(const std::string& id) {
    return WeightsIn(Layout().InitialCheckpointFolder(id));
  }
  void DeleteSource() {
    ASSERT_TRUE(SayOutcome(source_, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
    launcher_.EndLast();
    ASSERT_TRUE(manager_->DeleteJob("source", false).ok());
    while (manager_->Tidy()) {
    }
    ASSERT_FALSE(HasFolder("source"));
  }
  bool HasFolder(const std::string& id) { return fs_.Exists(Layout().JobFolder(id)).value(); }

  FakeWorker source_;
};

TEST_F(JobCreatorTest, NewJobHasTheCheckpointAndItsWorkerGoesOnFromIt) {
  ASSERT_TRUE(manager_->CreateJob(Forked("fork")).ok());
  const v1::Job job = Get("fork");
  EXPECT_EQ(job.forked_from(), "jobs/source/checkpoints/step-000000010");
  EXPECT_EQ(job.latest_checkpoint(), "jobs/fork/checkpoints/step-000000010");
  EXPECT_EQ(job.best_fvu(), 0.5);
  EXPECT_EQ(Weights("fork"), "weights");
  ASSERT_TRUE(SayOutcome(source_, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  FakeWorker worker = LaunchAndConnect();
  const v1::Welcome& welcome = worker.connection->messages.at(0).welcome();
  EXPECT_EQ(welcome.first_step(), 10);
  EXPECT_THAT(welcome.checkpoint_folders(), ElementsAre(Layout().CheckpointFolder("fork", 10)));
}

TEST_F(JobCreatorTest, ForkOutlivesItsSource) {
  ASSERT_TRUE(manager_->CreateJob(Forked("fork")).ok());
  DeleteSource();
  EXPECT_EQ(Weights("fork"), "weights");
}

TEST_F(JobCreatorTest, RepeatedRequestGivesTheSameJobAndAnotherIsRefused) {
  ASSERT_TRUE(manager_->CreateJob(Forked("fork")).ok());
  EXPECT_TRUE(manager_->CreateJob(Forked("fork")).ok());
  NewJob other = Forked("fork");
  other.request.sha256 = "another";
  EXPECT_TRUE(absl::IsAlreadyExists(manager_->CreateJob(other).status()));
  EXPECT_EQ(Weights("fork"), "weights");
}

TEST_F(JobCreatorTest, CheckpointThatIsGoneIsNotFoundAndLeavesNothing) {
  const NewJob job = Forked("fork");
  ASSERT_TRUE(fs_.RemoveAll(Layout().CheckpointFolder("source", 10)).ok());
  EXPECT_TRUE(absl::IsNotFound(manager_->CreateJob(job).status()));
  EXPECT_FALSE(HasFolder("fork"));
  EXPECT_TRUE(absl::IsNotFound(manager_->GetJob("fork").status()));
}

TEST_F(JobCreatorTest, CheckpointThatWasPublishedAnewMeanwhileIsNotTaken) {
  const NewJob job = Forked("fork");
  ASSERT_TRUE(WriteFileAtomically(
                  fs_, JoinPath(Layout().CheckpointFolder("source", 10), "manifest.json"), "{}")
                  .ok());
  EXPECT_TRUE(absl::IsNotFound(manager_->CreateJob(job).status()));
  EXPECT_FALSE(HasFolder("fork"));
}

TEST_F(JobCreatorTest, EachFailingStepLeavesNothingAndTheNextTryGoesWell) {
  for (const char* operation : {"mkdir", "syncdir", "open"}) {
    for (int successes = 0;; ++successes) {
      FailingFileSystem failing(operation, successes);
      const JobEnvironment env{.catalog = *catalog_,
                               .fs = failing,
                               .launcher = launcher_,
                               .watchers = hub_,
                               .kinds = kinds_,
                               .layout = Layout(),
                               .now = [this] { return now_; }};
      const absl::Status status = JobCreator(env).CreateJob(Forked(operation)).status();
      if (!failing.failed()) break;
      EXPECT_FALSE(status.ok()) << operation << successes;
      EXPECT_FALSE(HasFolder(operation)) << operation << successes;
    }
    EXPECT_EQ(Weights(operation), "weights");
  }
}

TEST_F(JobCreatorTest, FailingLinkLeavesNothing) {
  JobEnvironment env = Environment();
  env.link = [](const std::string& from, const std::string& to) {
    return from.ends_with("manifest.json") ? absl::ResourceExhaustedError("injected")
                                           : HardLink(from, to);
  };
  EXPECT_TRUE(absl::IsResourceExhausted(JobCreator(env).CreateJob(Forked("fork")).status()));
  EXPECT_FALSE(HasFolder("fork"));
}

// A job made anew under an id that a restored catalog had forgotten inherited its rollbacks.
TEST_F(JobCreatorTest, WhatLiesInTheFolderOfANewJobIsSetAside) {
  for (const NewJob& job : {Forked("fork"), Started("start"), NewJob{.id = "plain"}}) {
    ASSERT_TRUE(fs_.CreateDirectories(Layout().CheckpointFolder(job.id, 10)).ok());
    ASSERT_TRUE(WriteFileAtomically(fs_, Layout().RollbacksFile(job.id), "another job's").ok());
    ASSERT_TRUE(manager_->CreateJob(job).ok());
    EXPECT_FALSE(fs_.Exists(Layout().RollbacksFile(job.id)).value()) << job.id;
  }
  EXPECT_EQ(Weights("fork"), "weights");
  EXPECT_THAT(fs_.List(Layout().LostAndFoundFolder()).value(), SizeIs(1));
}

TEST_F(JobCreatorTest, AJobThatStartsFromWeightsTellsItsWorkerWhereItsCopyIs) {
  ASSERT_TRUE(manager_->CreateJob(Started("next")).ok());
  const v1::Job job = Get("next");
  EXPECT_EQ(job.forked_from(), "");
  EXPECT_EQ(job.latest_checkpoint(), "");
  DeleteSource();
  EXPECT_EQ(InitialWeights("next"), "weights");
  FakeWorker worker = LaunchAndConnect();
  const v1::Welcome& welcome = worker.connection->messages.at(0).welcome();
  EXPECT_EQ(welcome.initial_checkpoint_folder(), Layout().InitialCheckpointFolder("next"));
  EXPECT_EQ(welcome.first_step(), 0);
  EXPECT_THAT(welcome.checkpoint_folders(), IsEmpty());
}

TEST_F(JobCreatorTest, AWorkerElsewhereIsToldTheFilesOfTheWeightsItStartsFrom) {
  ASSERT_TRUE(manager_->CreateJob(Started("next")).ok());
  DeleteSource();
  options_.worker_endpoint = "gpu.example:7070";
  Restart();
  FakeWorker worker = LaunchAndConnect();
  const v1::Welcome welcome = worker.connection->messages.at(0).welcome();
  std::vector<std::string> files;
  for (const v1::CheckpointFile& file : welcome.initial_checkpoint_files()) {
    files.push_back(file.name());
  }
  EXPECT_THAT(files, ElementsAre("lorsa.safetensors", "manifest.json"));

  ASSERT_TRUE(
      fs_.RemoveAll(JoinPath(Layout().InitialCheckpointFolder("next"), "manifest.json")).ok());
  ASSERT_TRUE(Connect(worker).ok()) << "it may have gone beyond its beginning";
  EXPECT_THAT(worker.connection->messages.at(0).welcome().initial_checkpoint_files(), IsEmpty());
}

TEST_F(JobCreatorTest, AForkOfSuchAJobIsToldOfItsOwnCheckpointAlone) {
  NewJob fork = Forked("fork");
  fork.resolved_spec.mutable_training()->set_initial_checkpoint(
      "jobs/gone/checkpoints/step-000000000");
  ASSERT_TRUE(manager_->CreateJob(fork).ok());
  ASSERT_TRUE(SayOutcome(source_, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  FakeWorker worker = LaunchAndConnect();
  EXPECT_EQ(worker.connection->messages.at(0).welcome().initial_checkpoint_folder(), "");
}

TEST_F(JobCreatorTest, EachJobOfASweepHasACopy) {
  ASSERT_TRUE(manager_->CreateSweep(SweepOf({"one", "two"})).ok());
  EXPECT_TRUE(manager_->CreateSweep(SweepOf({"one", "two"})).ok());
  DeleteSource();
  EXPECT_EQ(InitialWeights("one"), "weights");
  EXPECT_EQ(InitialWeights("two"), "weights");
}

TEST_F(JobCreatorTest, ASweepThatFailsLeavesNothingAndTakesNothingAway) {
  ASSERT_TRUE(manager_->CreateJob(Started("two")).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(manager_->CreateSweep(SweepOf({"one", "two"})).status()));
  EXPECT_FALSE(HasFolder("one"));
  EXPECT_EQ(InitialWeights("two"), "weights");
  JobEnvironment env = Environment();
  int links = 0;
  env.link = [&](const std::string& from, const std::string& to) {
    return ++links == 3 ? absl::ResourceExhaustedError("injected") : HardLink(from, to);
  };
  const NewSweep sweep = SweepOf({"three", "four"});
  EXPECT_TRUE(absl::IsResourceExhausted(JobCreator(env).CreateSweep(sweep).status()));
  EXPECT_FALSE(HasFolder("three"));
  EXPECT_FALSE(HasFolder("four"));
}

TEST_F(JobCreatorTest, KilledBetweenLinkAndCommitItCanBeTriedAgain) {
  JobEnvironment env = Environment();
  env.link = [](const std::string& from, const std::string& to) {
    const absl::Status linked = HardLink(from, to);
    if (from.ends_with("manifest.json")) raise(SIGKILL);
    return linked;
  };
  const NewJob job = Started("next");
  EXPECT_EXIT(JobCreator(env).CreateJob(job).IgnoreError(), testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(InitialWeights("next"), "weights");
  EXPECT_TRUE(absl::IsNotFound(manager_->GetJob("next").status()));
  ASSERT_TRUE(AdoptData().ok());
  EXPECT_FALSE(HasFolder("next"));
  EXPECT_EXIT(JobCreator(env).CreateJob(job).IgnoreError(), testing::KilledBySignal(SIGKILL), "");
  EXPECT_TRUE(manager_->CreateJob(job).ok());
  EXPECT_EQ(InitialWeights("next"), "weights");
}

}  // namespace
}  // namespace lorsa::server

#include "server/jobs/job_forker.h"

#include "base/failing_file_system.h"
#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class JobForkerTest : public JobsTest {
 protected:
  JobForkerTest() : source_(Run("source")) {
    EXPECT_EQ(Publish(source_, Stage(source_, 10, "weights", 0.5)).error(), "");
  }
  NewJob Forked(const std::string& id) {
    NewJob job{.id = id, .request = {.id = "r", .sha256 = "s"}};
    job.resolved_spec.set_activation_set("set");
    job.resolved_spec.set_keep_checkpoints(2);
    job.first_checkpoint = catalog_->GetCheckpoint("source", 10).value();
    job.forked_from = job.first_checkpoint->name();
    return job;
  }
  std::string Weights(const std::string& id) {
    return ReadFile(fs_, JoinPath(Layout().CheckpointFolder(id, 10), "lorsa.safetensors"), 1 << 20)
        .value_or("");
  }
  bool HasFolder(const std::string& id) { return fs_.Exists(Layout().JobFolder(id)).value(); }

  FakeWorker source_;
};

TEST_F(JobForkerTest, NewJobHasTheCheckpointAndItsWorkerGoesOnFromIt) {
  ASSERT_TRUE(manager_->ForkJob("source", Forked("fork")).ok());
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

TEST_F(JobForkerTest, ForkOutlivesItsSource) {
  ASSERT_TRUE(manager_->ForkJob("source", Forked("fork")).ok());
  ASSERT_TRUE(SayOutcome(source_, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  launcher_.EndLast();
  ASSERT_TRUE(manager_->DeleteJob("source", false).ok());
  while (manager_->Tidy()) {
  }
  EXPECT_FALSE(HasFolder("source"));
  EXPECT_EQ(Weights("fork"), "weights");
}

TEST_F(JobForkerTest, RepeatedRequestGivesTheSameJobAndAnotherIsRefused) {
  ASSERT_TRUE(manager_->ForkJob("source", Forked("fork")).ok());
  EXPECT_TRUE(manager_->ForkJob("source", Forked("fork")).ok());
  NewJob other = Forked("fork");
  other.request.sha256 = "another";
  EXPECT_TRUE(absl::IsAlreadyExists(manager_->ForkJob("source", other).status()));
  EXPECT_EQ(Weights("fork"), "weights");
}

TEST_F(JobForkerTest, CheckpointThatIsGoneIsNotFoundAndLeavesNothing) {
  const NewJob job = Forked("fork");
  ASSERT_TRUE(fs_.RemoveAll(Layout().CheckpointFolder("source", 10)).ok());
  EXPECT_TRUE(absl::IsNotFound(manager_->ForkJob("source", job).status()));
  EXPECT_FALSE(HasFolder("fork"));
  EXPECT_TRUE(absl::IsNotFound(manager_->GetJob("fork").status()));
}

TEST_F(JobForkerTest, CheckpointThatWasPublishedAnewMeanwhileIsNotTaken) {
  const NewJob job = Forked("fork");
  ASSERT_TRUE(WriteFileAtomically(
                  fs_, JoinPath(Layout().CheckpointFolder("source", 10), "manifest.json"), "{}")
                  .ok());
  EXPECT_TRUE(absl::IsNotFound(manager_->ForkJob("source", job).status()));
  EXPECT_FALSE(HasFolder("fork"));
}

TEST_F(JobForkerTest, EachFailingStepLeavesNothingAndTheNextTryGoesWell) {
  for (const char* operation : {"mkdir", "syncdir", "open"}) {
    for (int successes = 0;; ++successes) {
      FailingFileSystem failing(operation, successes);
      const JobEnvironment env{.catalog = *catalog_,
                               .fs = failing,
                               .launcher = launcher_,
                               .watchers = hub_,
                               .layout = Layout(),
                               .now = [this] { return now_; }};
      const absl::Status status = JobForker(env).Fork("source", Forked(operation)).status();
      if (!failing.failed()) break;
      EXPECT_FALSE(status.ok()) << operation << successes;
      EXPECT_FALSE(HasFolder(operation)) << operation << successes;
    }
    EXPECT_EQ(Weights(operation), "weights");
  }
}

TEST_F(JobForkerTest, FailingLinkLeavesNothing) {
  JobEnvironment env = Environment();
  env.link = [](const std::string& from, const std::string& to) {
    return from.ends_with("manifest.json") ? absl::ResourceExhaustedError("injected")
                                           : HardLink(from, to);
  };
  EXPECT_TRUE(absl::IsResourceExhausted(JobForker(env).Fork("source", Forked("fork")).status()));
  EXPECT_FALSE(HasFolder("fork"));
}

// A crash before the catalog had stored the job left its folder for ever.
TEST_F(JobForkerTest, RemainsOfAForkThatWasCutOffAreRemovedAndNothingElse) {
  ASSERT_TRUE(manager_->ForkJob("source", Forked("fork")).ok());
  ASSERT_TRUE(fs_.CreateDirectories(Layout().CheckpointFolder("cut-off", 10)).ok());
  ASSERT_TRUE(fs_.CreateDirectories(Layout().AttemptFolder("of-another-catalog", 1)).ok());
  JobForker(Environment()).RemoveRemains();
  EXPECT_FALSE(HasFolder("cut-off"));
  EXPECT_TRUE(HasFolder("of-another-catalog"));
  EXPECT_TRUE(HasFolder("source"));
  EXPECT_EQ(Weights("fork"), "weights");
}

}  // namespace
}  // namespace lorsa::server

#include "server/jobs/checkpoint_publisher.h"

#include "base/failing_file_system.h"
#include "server/jobs/checkpoint_files.h"
#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CheckpointPublisherTest : public JobsTest {
 protected:
  std::string Folder(int64_t step) const { return Layout().CheckpointFolder("demo", step); }
  std::string Weights(int64_t step) {
    return ReadFile(fs_, JoinPath(Folder(step), "lorsa.safetensors"), 1 << 20).value();
  }
  std::vector<int64_t> Steps() {
    std::vector<int64_t> steps;
    const auto checkpoints = catalog_->ListCheckpoints("demo").value();
    for (const auto& checkpoint : checkpoints) {
      steps.push_back(checkpoint.step());
    }
    return steps;
  }
  std::string StagedFile(const FakeWorker& worker, const v1::CheckpointStaged& staged) {
    return JoinPath(JoinPath(worker.bootstrap.staging_folder(), staged.folder()),
                    "lorsa.safetensors");
  }
  // The next attempt after a loss.
  FakeWorker Recover() {
    launcher_.EndLast();
    Poll();
    Advance(options_.max_backoff);
    return LaunchAndConnect();
  }
};

TEST_F(CheckpointPublisherTest, StagedCheckpointIsPublishedWithItsFiles) {
  FakeWorker worker = Run("demo");
  const v1::CheckpointPublished answer = Publish(worker, Stage(worker, 10, "abc", 0.5));
  EXPECT_EQ(answer.error(), "");
  EXPECT_EQ(answer.folder(), "step-000000010");
  EXPECT_EQ(Weights(10), "abc");
  EXPECT_THAT(fs_.List(worker.bootstrap.staging_folder()).value(), IsEmpty());
  const v1::Checkpoint checkpoint = catalog_->GetCheckpoint("demo", 10).value();
  EXPECT_EQ(checkpoint.fvu(), 0.5);
  EXPECT_TRUE(checkpoint.best());
  ASSERT_THAT(checkpoint.files(), SizeIs(2));
  EXPECT_EQ(checkpoint.files(0).name(), "lorsa.safetensors");
  EXPECT_EQ(checkpoint.files(0).sha256(), Sha256Hex("abc"));
  EXPECT_EQ(checkpoint.files(0).size_bytes(), 3);
  EXPECT_EQ(checkpoint.files(1).name(), "manifest.json");
  EXPECT_THAT(EventReasons("demo").back(), "CHECKPOINT");
}

TEST_F(CheckpointPublisherTest, DamagedStagedFileIsRefusedAndNamed) {
  FakeWorker worker = Run("demo");
  const v1::CheckpointStaged staged = Stage(worker, 10, "abc");
  ASSERT_TRUE(WriteFileAtomically(fs_, StagedFile(worker, staged), "abd").ok());
  const v1::CheckpointPublished answer = Publish(worker, staged);
  EXPECT_THAT(answer.error(), HasSubstr("lorsa.safetensors has sha256"));
  EXPECT_FALSE(answer.retriable());
  EXPECT_THAT(Steps(), IsEmpty());
  EXPECT_FALSE(fs_.Exists(Folder(10)).value());
}

TEST_F(CheckpointPublisherTest, TruncatedMissingOrExtraFilesAreRefused) {
  FakeWorker worker = Run("demo");
  v1::CheckpointStaged staged = Stage(worker, 10, "abc");
  ASSERT_TRUE(WriteFileAtomically(fs_, StagedFile(worker, staged), "ab").ok());
  EXPECT_THAT(Publish(worker, staged).error(), HasSubstr("has 2 bytes, its manifest says 3"));
  ASSERT_TRUE(fs_.Remove(StagedFile(worker, staged)).ok());
  EXPECT_THAT(Publish(worker, staged).error(), HasSubstr("No such file"));
  staged = Stage(worker, 20, "abc");
  ASSERT_TRUE(WriteFileAtomically(fs_, StagedFile(worker, staged) + "-extra", "x").ok());
  EXPECT_THAT(Publish(worker, staged).error(), HasSubstr("is not listed in its manifest"));
  EXPECT_THAT(Steps(), IsEmpty());
}

TEST_F(CheckpointPublisherTest, LinkInPlaceOfAFileIsRefused) {
  FakeWorker worker = Run("demo");
  const v1::CheckpointStaged staged = Stage(worker, 10, "abc");
  const std::string outside = JoinPath(folder_, "outside");
  ASSERT_TRUE(WriteFileAtomically(fs_, outside, "abc").ok());
  ASSERT_TRUE(fs_.Remove(StagedFile(worker, staged)).ok());
  std::filesystem::create_symlink(outside, StagedFile(worker, staged));
  EXPECT_THAT(Publish(worker, staged).error(), HasSubstr("symbolic links are not followed"));
}

TEST_F(CheckpointPublisherTest, ManifestMustBeTheOneTheWorkerNamed) {
  FakeWorker worker = Run("demo");
  v1::CheckpointStaged staged = Stage(worker, 10);
  staged.set_manifest_sha256(Sha256Hex("another"));
  EXPECT_THAT(Publish(worker, staged).error(), HasSubstr("manifest.json has sha256"));
}

TEST_F(CheckpointPublisherTest, ManifestCannotNameAFileOutsideItsFolder) {
  FakeWorker worker = Run("demo");
  v1::CheckpointStaged staged = Stage(worker, 10);
  const std::string manifest = R"({"files":{"../secret":{"bytes":1,"sha256":"00"}}})";
  ASSERT_TRUE(WriteFileAtomically(
                  fs_, JoinPath(DirectoryOf(StagedFile(worker, staged)), "manifest.json"), manifest)
                  .ok());
  staged.set_manifest_sha256(Sha256Hex(manifest));
  EXPECT_THAT(Publish(worker, staged).error(), HasSubstr("an entry of \"files\" is not valid"));
}

TEST_F(CheckpointPublisherTest, FolderMustBeNamedForItsStep) {
  FakeWorker worker = Run("demo");
  for (const char* folder : {"../../../x", "step-000000011", "", "step-10"}) {
    v1::CheckpointStaged staged = Stage(worker, 10);
    staged.set_folder(folder);
    EXPECT_THAT(Publish(worker, staged).error(), HasSubstr("named for its step")) << folder;
  }
}

TEST_F(CheckpointPublisherTest, RequestSentAgainFindsItsOwnCheckpoint) {
  FakeWorker worker = Run("demo");
  const v1::CheckpointStaged staged = Stage(worker, 10);
  ASSERT_EQ(Publish(worker, staged).error(), "");
  const int64_t revision = Get("demo").revision();
  EXPECT_EQ(Publish(worker, staged).error(), "");
  EXPECT_EQ(Get("demo").revision(), revision);
}

TEST_F(CheckpointPublisherTest, RenameWithoutItsRecordIsCompletedWhenAskedAgain) {
  FakeWorker worker = Run("demo");
  const v1::CheckpointStaged staged = Stage(worker, 10, "abc");
  // As after a crash between the rename and the commit.
  ASSERT_TRUE(fs_.Rename(DirectoryOf(StagedFile(worker, staged)), Folder(10)).ok());
  EXPECT_EQ(Publish(worker, staged).error(), "");
  EXPECT_THAT(Steps(), ElementsAre(10));
}

TEST_F(CheckpointPublisherTest, FolderThatTheCatalogDoesNotKnowIsReplaced) {
  FakeWorker worker = Run("demo");
  ASSERT_TRUE(fs_.CreateDirectories(Folder(10)).ok());
  ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(Folder(10), "leftover"), "x").ok());
  EXPECT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  EXPECT_EQ(Weights(10), "abc");
  EXPECT_FALSE(fs_.Exists(Layout().TrashFolder("demo")).value());
}

TEST_F(CheckpointPublisherTest, StepRunAgainKeepsTheCheckpointThatHolds) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  worker = Recover();
  EXPECT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  EXPECT_EQ(catalog_->GetCheckpoint("demo", 10)->attempt(), 1);
  EXPECT_THAT(fs_.List(worker.bootstrap.staging_folder()).value(), IsEmpty());
}

TEST_F(CheckpointPublisherTest, StepRunAgainReplacesACheckpointThatIsDamaged) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(Folder(10), "lorsa.safetensors"), "xyz").ok());
  worker = Recover();
  EXPECT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  EXPECT_EQ(catalog_->GetCheckpoint("demo", 10)->attempt(), 2);
  EXPECT_EQ(Weights(10), "abc");
}

TEST_F(CheckpointPublisherTest, KeepsTheNewestAndTheBest) {
  FakeWorker worker = Run("demo");  // keep_checkpoints: 2
  ASSERT_EQ(Publish(worker, Stage(worker, 0, "w0", 0.6)).error(), "");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "w10", 0.2)).error(), "");
  ASSERT_EQ(Publish(worker, Stage(worker, 20, "w20", 0.3)).error(), "");
  ASSERT_EQ(Publish(worker, Stage(worker, 30, "w30")).error(), "");
  ASSERT_EQ(Publish(worker, Stage(worker, 40, "w40", 0.4)).error(), "");
  EXPECT_THAT(Steps(), ElementsAre(10, 30, 40));
  EXPECT_THAT(fs_.List(Layout().CheckpointsFolder("demo")).value(),
              ElementsAre("step-000000010", "step-000000030", "step-000000040"));
  EXPECT_FALSE(fs_.Exists(Layout().TrashFolder("demo")).value());
}

TEST_F(CheckpointPublisherTest, FailedStepLeavesAStateFromWhichTheNextTrySucceeds) {
  FakeWorker worker = Run("demo");
  int64_t step = 0;
  for (const char* operation : {"open", "rename", "syncdir"}) {
    for (int successes = 0; successes < 3; ++successes) {
      step += 10;
      const v1::CheckpointStaged staged = Stage(worker, step, "abc");
      FailingFileSystem failing(operation, successes);
      JobEnvironment env = Environment();
      CheckpointPublisher publisher({.catalog = env.catalog,
                                     .fs = failing,
                                     .launcher = env.launcher,
                                     .watchers = env.watchers,
                                     .layout = env.layout,
                                     .now = env.now,
                                     .uptime = env.uptime,
                                     .random_bytes = env.random_bytes});
      const absl::Status status = publisher.Publish(worker.attempt, staged, 100);
      // Once the catalog has it, failing housekeeping is no failure.
      EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
      EXPECT_EQ(Publish(worker, staged).error(), "") << operation << " " << successes;
      EXPECT_EQ(Weights(step), "abc");
    }
  }
}

}  // namespace
}  // namespace lorsa::server

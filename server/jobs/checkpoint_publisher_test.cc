#include "server/jobs/checkpoint_publisher.h"

#include <fstream>
#include <functional>

#include "base/failing_file_system.h"
#include "base/forwarding_file_system.h"
#include "server/catalog/sqlite.h"
#include "server/jobs/checkpoint_files.h"
#include "server/jobs/job_requests.h"
#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Notes what is fsynced and renamed; fails one rename and every open in one folder, if told to.
class ScriptedFileSystem final : public ForwardingFileSystem {
 public:
  ScriptedFileSystem() : ForwardingFileSystem(posix_) {}

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    if (on_open) on_open();
    if (DirectoryOf(path) == unreadable) return absl::InternalError("Too many open files");
    return next().OpenForRead(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    synced.push_back(path);
    return next().SyncDirectory(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (++renames == failing_rename) return absl::ResourceExhaustedError("injected");
    return next().Rename(from, to);
  }

  std::string unreadable;
  std::function<void()> on_open;
  std::vector<std::string> synced;
  int renames = 0;
  int failing_rename = 0;  // counted from 1

 private:
  PosixFileSystem posix_;
};

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
  absl::Status PublishOn(FileSystem& fs, const FakeWorker& worker,
                         const v1::CheckpointStaged& staged) {
    const JobEnvironment env = Environment();
    CheckpointPublisher publisher({.catalog = env.catalog,
                                   .fs = fs,
                                   .launcher = env.launcher,
                                   .watchers = env.watchers,
                                   .kinds = env.kinds,
                                   .layout = env.layout,
                                   .now = env.now,
                                   .uptime = env.uptime,
                                   .random_bytes = env.random_bytes});
    return publisher.Publish(worker.attempt, staged, {.keep_checkpoints = 100});
  }
  std::string StagedFolder(const FakeWorker& worker, const v1::CheckpointStaged& staged) {
    return DirectoryOf(StagedFile(worker, staged));
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

// A crash within the housekeeping of a run's last publication left a folder for ever: nothing was
// published after it. The worker that outlived the server asks again.
TEST_F(CheckpointPublisherTest, RequestSentAgainKeepsHouse) {
  FakeWorker worker = Run("demo");
  const v1::CheckpointStaged staged = Stage(worker, 10);
  ASSERT_EQ(Publish(worker, staged).error(), "");
  ASSERT_TRUE(fs_.CreateDirectories(Folder(5)).ok());
  EXPECT_EQ(Publish(worker, staged).error(), "");
  EXPECT_FALSE(fs_.Exists(Folder(5)).value());
  EXPECT_TRUE(fs_.Exists(Folder(10)).value());
}

TEST_F(CheckpointPublisherTest, ABeginningAttemptFindsTheFoldersOfTheCatalogAlone) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  // As after crashes within 6 and between 4 and 5.
  ASSERT_TRUE(fs_.CreateDirectories(Folder(5)).ok());
  ASSERT_TRUE(fs_.CreateDirectories(Layout().TrashFolder("demo")).ok());
  ASSERT_TRUE(
      fs_.Rename(Folder(10), JoinPath(Layout().TrashFolder("demo"), CheckpointId(10))).ok());
  ASSERT_TRUE(fs_.CreateDirectories(Folder(10)).ok());
  worker = Recover();
  EXPECT_EQ(Weights(10), "abc");
  EXPECT_FALSE(fs_.Exists(Folder(5)).value());
  EXPECT_FALSE(fs_.Exists(Layout().TrashFolder("demo")).value());
}

TEST_F(CheckpointPublisherTest, AServerThatStartsLooksAtJobsWithoutAWorkerAlone) {
  FakeWorker ended = Run("demo");
  ASSERT_EQ(Publish(ended, Stage(ended, 10, "abc")).error(), "");
  ASSERT_TRUE(SayOutcome(ended, v1::WorkerOutcome::KIND_SUCCEEDED).ok());
  launcher_.EndLast();
  const FakeWorker running = Run("running");
  const v1::CheckpointStaged staged = Stage(running, 10);
  const std::string in_place = Layout().CheckpointFolder("running", 10);
  ASSERT_TRUE(fs_.Rename(StagedFolder(running, staged), in_place).ok());
  ASSERT_TRUE(fs_.CreateDirectories(Folder(5)).ok());
  Restart();
  ASSERT_TRUE(AdoptData().ok());
  EXPECT_FALSE(fs_.Exists(Folder(5)).value());
  EXPECT_EQ(Weights(10), "abc");
  EXPECT_TRUE(fs_.Exists(in_place).value()) << "its worker will ask again";
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

// A stop broke the evaluation off; the checkpoint staged after it was thrown away, and with it the
// FVU.
TEST_F(CheckpointPublisherTest, CheckpointWithItsFvuReplacesTheOneWithout) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  EXPECT_EQ(Publish(worker, Stage(worker, 10, "abc, evaluated", 0.5)).error(), "");
  const v1::Checkpoint checkpoint = catalog_->GetCheckpoint("demo", 10).value();
  EXPECT_EQ(checkpoint.fvu(), 0.5);
  EXPECT_TRUE(checkpoint.best());
  EXPECT_EQ(Weights(10), "abc, evaluated");
  EXPECT_FALSE(fs_.Exists(Layout().TrashFolder("demo")).value());
}

TEST_F(CheckpointPublisherTest, CheckpointWithItsFvuIsKept) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc", 0.5)).error(), "");
  EXPECT_EQ(Publish(worker, Stage(worker, 10, "xyz")).error(), "");
  EXPECT_EQ(Publish(worker, Stage(worker, 10, "xyz", 0.5)).error(), "");
  EXPECT_EQ(Weights(10), "abc");
}

// The rename was taken for durable though the crash may have come before the fsync.
TEST_F(CheckpointPublisherTest, RenameOfAnEarlierTryIsFsyncedBeforeTheAnswer) {
  FakeWorker worker = Run("demo");
  const v1::CheckpointStaged staged = Stage(worker, 10);
  ASSERT_TRUE(fs_.Rename(StagedFolder(worker, staged), Folder(10)).ok());
  ScriptedFileSystem fs;
  ASSERT_TRUE(PublishOn(fs, worker, staged).ok());
  EXPECT_THAT(fs.synced,
              ElementsAre(Layout().CheckpointsFolder("demo"), worker.bootstrap.staging_folder()));
}

// An attempt that was over replaced the published folder first and was refused afterwards.
TEST_F(CheckpointPublisherTest, AttemptThatIsOverMovesNothing) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  const v1::CheckpointStaged staged = Stage(worker, 10, "xyz", 0.5);
  launcher_.EndLast();
  Poll();
  ScriptedFileSystem fs;
  EXPECT_TRUE(absl::IsAborted(PublishOn(fs, worker, staged)));
  EXPECT_EQ(fs.renames, 0);
  EXPECT_EQ(Weights(10), "abc");
}

TEST_F(CheckpointPublisherTest, AttemptThatEndsDuringVerificationMovesNothing) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  const v1::CheckpointStaged staged = Stage(worker, 10, "xyz", 0.5);
  ScriptedFileSystem fs;
  fs.on_open = [&] {
    launcher_.EndLast();
    Poll();
  };
  EXPECT_TRUE(absl::IsAborted(PublishOn(fs, worker, staged)));
  EXPECT_EQ(fs.renames, 0);
  EXPECT_EQ(Weights(10), "abc");
}

// Any error of verification counted as damage, and a good checkpoint went to the trash.
TEST_F(CheckpointPublisherTest, CheckpointThatCannotBeReadNowIsNotDamaged) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  const v1::CheckpointStaged staged = Stage(worker, 10, "xyz");
  ScriptedFileSystem fs;
  for (const std::string& unreadable : {Folder(10), StagedFolder(worker, staged)}) {
    fs.unreadable = unreadable;
    v1::CheckpointStaged request = staged;
    if (unreadable != Folder(10)) request.set_fvu(0.5);  // Is looked at.
    const absl::Status status = PublishOn(fs, worker, request);
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_EQ(fs.renames, 0);
    EXPECT_EQ(Weights(10), "abc");
    EXPECT_TRUE(fs_.Exists(StagedFolder(worker, staged)).value());
  }
}

TEST_F(CheckpointPublisherTest, ManifestOfAbsurdSizeIsDamageAndNotAFullDisk) {
  FakeWorker worker = Run("demo");
  const v1::CheckpointStaged staged = Stage(worker, 10);
  ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(StagedFolder(worker, staged), "manifest.json"),
                                  std::string((1 << 20) + 1, ' '))
                  .ok());
  const v1::CheckpointPublished answer = Publish(worker, staged);
  EXPECT_THAT(answer.error(), HasSubstr("has more than 1048576 bytes"));
  EXPECT_FALSE(answer.retriable());
}

TEST_F(CheckpointPublisherTest, RenameThatFailsPutsBackWhatItDisplaced) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  ScriptedFileSystem fs;
  fs.failing_rename = 2;  // the first makes room
  const v1::CheckpointStaged staged = Stage(worker, 10, "xyz", 0.5);
  EXPECT_TRUE(absl::IsResourceExhausted(PublishOn(fs, worker, staged)));
  EXPECT_EQ(Weights(10), "abc");
  EXPECT_EQ(Publish(worker, staged).error(), "");
  EXPECT_EQ(Weights(10), "xyz");
}

// The new files stood under the old record, so that the checkpoint could not be read.
TEST_F(CheckpointPublisherTest, ARecordThatCannotBeWrittenPutsBackWhatWasDisplaced) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  const v1::CheckpointStaged staged = Stage(worker, 10, "xyz", 0.5);
  const auto connection = Connection::OpenExisting(Layout().CatalogFile()).value();
  ASSERT_TRUE(connection
                  ->Execute("CREATE TRIGGER refuse BEFORE INSERT ON checkpoints "
                            "BEGIN SELECT RAISE(ABORT, 'injected'); END")
                  .ok());
  EXPECT_NE(Publish(worker, staged).error(), "");
  EXPECT_EQ(Weights(10), "abc");
  EXPECT_TRUE(VerifyCheckpointFiles(fs_, Folder(10),
                                    ManifestSha256(catalog_->GetCheckpoint("demo", 10).value()))
                  .ok());
  ASSERT_TRUE(connection->Execute("DROP TRIGGER refuse").ok());
  EXPECT_EQ(Publish(worker, staged).error(), "");
  EXPECT_EQ(Weights(10), "xyz");
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

// Retention counted a damaged one as the newest or the best, and deleted the one that holds.
TEST_F(CheckpointPublisherTest, ADamagedOneTakesNoOthersPlace) {
  FakeWorker worker = Run("demo");  // keep_checkpoints: 2
  Publish(worker, Stage(worker, 10, "a", 0.5));
  Publish(worker, Stage(worker, 20, "b", 0.1));
  const v1::Checkpoint best = catalog_->GetCheckpoint("demo", 20).value();
  ASSERT_TRUE(catalog_->PutVerdict("demo", best, "a byte is wrong", now_).ok());
  for (const int64_t step : {30, 40, 50}) {
    Publish(worker, Stage(worker, step, "c", 0.9));
  }
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 40, 50));
}

TEST_F(CheckpointPublisherTest, ThePinnedAreKeptUntilTheyAreUnpinned) {
  FakeWorker worker = Run("demo");  // keep_checkpoints: 2
  ASSERT_EQ(Publish(worker, Stage(worker, 0)).error(), "");
  ASSERT_TRUE(catalog_->PinCheckpoint("demo", AtStep(0), true)->pinned());
  for (const int64_t step : {10, 20, 30}) {
    ASSERT_EQ(Publish(worker, Stage(worker, step)).error(), "");
  }
  EXPECT_THAT(Steps(), ElementsAre(0, 20, 30));
  EXPECT_TRUE(absl::IsFailedPrecondition(catalog_->DeleteCheckpoint("demo", 0, CheckNotPinned)));
  EXPECT_FALSE(catalog_->PinCheckpoint("demo", AtStep(0), false)->pinned());
  EXPECT_TRUE(absl::IsNotFound(catalog_->PinCheckpoint("demo", AtStep(10), true).status()));
  ASSERT_EQ(Publish(worker, Stage(worker, 40)).error(), "");
  EXPECT_THAT(Steps(), ElementsAre(30, 40));
}

TEST_F(CheckpointPublisherTest, APinOutlivesTheReplacementOfItsCheckpoint) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  ASSERT_TRUE(catalog_->PinCheckpoint("demo", AtStep(10), true).ok());
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "xyz", 0.5)).error(), "");
  EXPECT_EQ(Weights(10), "xyz");
  EXPECT_TRUE(catalog_->GetCheckpoint("demo", 10)->pinned());
}

TEST_F(CheckpointPublisherTest, WhatAWorkerFoundDamagedLeavesTheListIfItIs) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  ASSERT_EQ(Publish(worker, Stage(worker, 20, "def")).error(), "");
  v1::WorkerMessage message;
  message.mutable_warning()->set_message("step 20 is damaged");
  message.mutable_warning()->set_damaged_step(20);
  ASSERT_TRUE(Say(worker, message).ok());  // The worker is wrong.
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  std::ofstream(JoinPath(Folder(20), "lorsa.safetensors")) << "xxx";
  ASSERT_TRUE(Say(worker, message).ok());
  EXPECT_THAT(Steps(), ElementsAre(10));
  EXPECT_FALSE(fs_.Exists(Folder(20)).value());
  EXPECT_TRUE(fs_.Exists(JoinPath(Layout().DamagedFolder("demo"), "step-000000020")).value());
  const auto events = catalog_->ListEvents("demo", 0, 100);
  EXPECT_EQ(events->back().reason(), "WARNING");
  EXPECT_EQ(events->back().message(), "step 20 is damaged");
}

// It was moved away, and went with its job once that had outlived its ttl, as if nobody had pinned
// it.
TEST_F(CheckpointPublisherTest, ThePinnedStaysWhereItIsAlsoWhenItIsDamaged) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  ASSERT_EQ(Publish(worker, Stage(worker, 20, "def")).error(), "");
  ASSERT_TRUE(catalog_->PinCheckpoint("demo", AtStep(20), true).ok());
  std::ofstream(JoinPath(Folder(20), "lorsa.safetensors")) << "xxx";
  v1::WorkerMessage message;
  message.mutable_warning()->set_message("step 20 is damaged");
  message.mutable_warning()->set_damaged_step(20);
  ASSERT_TRUE(Say(worker, message).ok());
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  EXPECT_TRUE(fs_.Exists(Folder(20)).value());
  const v1::Checkpoint kept = catalog_->GetCheckpoint("demo", 20).value();
  EXPECT_TRUE(kept.pinned());
  EXPECT_THAT(kept.damage(), HasSubstr("lorsa.safetensors"));
  EXPECT_TRUE(catalog_->GetJob("demo")->has_pin);
  EXPECT_EQ(Get("demo").latest_checkpoint(), "jobs/demo/checkpoints/step-000000010")
      << "no worker is offered the damaged one";
}

// A crash between the two left a folder that no later retention saw.
TEST_F(CheckpointPublisherTest, FolderDeletedFromTheCatalogAloneIsSweptByTheNextRetention) {
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10)).error(), "");
  ASSERT_TRUE(catalog_->DeleteCheckpoint("demo", 10, CheckNotPinned).ok());
  ASSERT_TRUE(fs_.CreateDirectories(JoinPath(Layout().TrashFolder("demo"), "leftover")).ok());
  ASSERT_EQ(Publish(worker, Stage(worker, 20)).error(), "");
  EXPECT_THAT(fs_.List(Layout().CheckpointsFolder("demo")).value(), ElementsAre("step-000000020"));
  EXPECT_FALSE(fs_.Exists(Layout().TrashFolder("demo")).value());
}

// As after a crash between the renames of a replacement, or before its commit.
TEST_F(CheckpointPublisherTest, ReplacementThatWasNotRecordedIsUndoneByTheNextRetention) {
  const std::string trashed = JoinPath(Layout().TrashFolder("demo"), "step-000000010");
  FakeWorker worker = Run("demo");
  ASSERT_EQ(Publish(worker, Stage(worker, 10, "abc")).error(), "");
  int64_t step = 20;
  for (const bool renamed : {false, true}) {
    ASSERT_TRUE(fs_.CreateDirectories(Layout().TrashFolder("demo")).ok());
    ASSERT_TRUE(fs_.Rename(Folder(10), trashed).ok());
    const v1::CheckpointStaged staged = Stage(worker, 10, "xyz", 0.5);
    if (renamed) {
      ASSERT_TRUE(fs_.Rename(StagedFolder(worker, staged), Folder(10)).ok());
    }
    ScriptedFileSystem fs;
    ASSERT_TRUE(PublishOn(fs, worker, Stage(worker, step, "next")).ok());
    EXPECT_EQ(Weights(10), "abc");
    EXPECT_FALSE(fs_.Exists(Layout().TrashFolder("demo")).value());
    step += 10;
  }
}

TEST_F(CheckpointPublisherTest, FailedStepLeavesAStateFromWhichTheNextTrySucceeds) {
  FakeWorker worker = Run("demo");
  int64_t step = 0;
  for (const char* operation : {"open", "rename", "syncdir"}) {
    for (int successes = 0; successes < 3; ++successes) {
      step += 10;
      const v1::CheckpointStaged staged = Stage(worker, step, "abc");
      FailingFileSystem failing(operation, successes);
      const absl::Status status = PublishOn(failing, worker, staged);
      // Once the catalog has it, failing housekeeping is no failure.
      EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
      EXPECT_EQ(Publish(worker, staged).error(), "") << operation << " " << successes;
      EXPECT_EQ(Weights(step), "abc");
    }
  }
}

}  // namespace
}  // namespace lorsa::server

// Catalogs that are older than the data beside them.
#include "server/jobs/data_adoption.h"

#include <algorithm>
#include <functional>
#include <map>

#include "absl/strings/str_join.h"
#include "base/failing_file_system.h"
#include "lorsa/v1/job_file.pb.h"
#include "server/catalog/catalog_backup.h"
#include "server/jobs/checkpoint_files.h"
#include "server/jobs/job_requests.h"
#include "server/jobs/jobs_test_fixture.h"
#include "trainer/config/checkpoint_config.h"

namespace lorsa::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DataAdoptionTest : public JobsTest {
 protected:
  DataAdoptionTest() {
    // As a worker that runs has one.
    launcher_.on_launch = [this] {
      ASSERT_TRUE(WriteFileAtomically(fs_, launcher_.launched.back().log_file, "began\n").ok());
    };
    EXPECT_TRUE(AdoptData().ok());
  }

  std::string Backup() const { return folder_ + "/backup.sqlite"; }
  void BackUp() { ASSERT_TRUE(BackUpCatalog(fs_, Layout().CatalogFile(), Backup()).ok()); }
  void StartAgain() {
    Restart();
    ASSERT_TRUE(AdoptData().ok());
  }
  // As `lorsad restore` does, with the server stopped.
  void PutBack() {
    manager_.reset();
    catalog_.reset();
    for (const char* suffix : {"", "-wal", "-shm"}) {
      ASSERT_TRUE(fs_.RemoveAll(Layout().CatalogFile() + suffix).ok());
    }
    ASSERT_TRUE(RestoreCatalog(fs_, Backup(), Layout().CatalogFile()).ok());
  }
  void RestoreInPlace() {
    PutBack();
    StartAgain();
  }

  void PublishSteps(FakeWorker& worker, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; step += 8) {
      ASSERT_EQ(Publish(worker, Stage(worker, step, absl::StrCat("w", step))).error(), "");
    }
  }
  // The worker leaves as it does when it can reach the server.
  void Leave(FakeWorker& worker, v1::WorkerOutcome::Kind kind) {
    LeaveOutcomeFile(worker, kind);
    ASSERT_TRUE(SayOutcome(worker, kind).ok());
    launcher_.EndLast("exited with status 0");
  }
  // A job with the checkpoints 0 and 8 ended after a backup that has 0 noted as deleted.
  void EndAfterABackupWithADeletion() {
    FakeWorker worker = Run("j");
    PublishSteps(worker, 0, 8);
    ASSERT_TRUE(catalog_->DeleteCheckpoint("j", 0, CheckNotPinned).ok());
    BackUp();
    Leave(worker, v1::WorkerOutcome::KIND_SUCCEEDED);
  }
  // Steps that are listed, each of which is whole.
  std::vector<int64_t> Steps(const std::string& id) {
    std::vector<int64_t> steps;
    const std::vector<v1::Checkpoint> listed = catalog_->ListCheckpoints(id).value();
    for (const v1::Checkpoint& checkpoint : listed) {
      const std::string folder = Layout().CheckpointFolder(id, checkpoint.step());
      EXPECT_TRUE(VerifyCheckpointFiles(fs_, folder, ManifestSha256(checkpoint)).ok()) << folder;
      steps.push_back(checkpoint.step());
    }
    return steps;
  }
  // A checkpoint of step 8 whose files say what they hold, as an import needs.
  void PublishImportable(FakeWorker& worker) {
    trainer::CheckpointConfig config;
    config.lorsa = {.d_model = 4, .n_ov_heads = 6, .n_qk_heads = 2, .d_qk = 3, .top_k = 2};
    config.lorsa.attn_scale = 1;
    config.context = 8;
    config.hook_convention = "transformers.self_attn";
    const std::map<std::string, std::string> files = {
        {"config.json", trainer::FormatCheckpointConfig(config)},
        {"state.json", R"({"format":"lorsa-training-state","format_version":1,"step":8,)"
                       R"("sequences_consumed":64,"fvu":0.25,"evaluated_step":8})"}};
    v1::CheckpointStaged staged;
    staged.set_step(8);
    staged.set_folder(CheckpointId(8));
    const std::string folder = JoinPath(worker.bootstrap.staging_folder(), staged.folder());
    ASSERT_TRUE(fs_.CreateDirectories(folder).ok());
    std::vector<std::string> entries;
    for (const auto& [name, text] : files) {
      ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(folder, name), text).ok());
      entries.push_back(absl::StrCat("\"", name, R"(":{"bytes":)", text.size(), R"(,"sha256":")",
                                     Sha256Hex(text), "\"}"));
    }
    const std::string manifest = absl::StrCat(R"({"files":{)", absl::StrJoin(entries, ","), "}}");
    ASSERT_TRUE(WriteFileAtomically(fs_, JoinPath(folder, "manifest.json"), manifest).ok());
    staged.set_manifest_sha256(Sha256Hex(manifest));
    ASSERT_EQ(Publish(worker, staged).error(), "");
  }
  // An imported job has neither.
  void RemoveFileAndAttempts(const std::string& id) {
    ASSERT_TRUE(fs_.Remove(Layout().JobFile(id)).ok());
    ASSERT_TRUE(fs_.RemoveAll(Layout().AttemptsFolder(id)).ok());
  }
  // Paths below lost+found/TIME/.
  std::vector<std::string> SetAsidePaths() {
    std::vector<std::string> paths;
    std::error_code error;
    const std::string root = Layout().LostAndFoundFolder();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root, error)) {
      const std::string path = std::filesystem::relative(entry.path(), root).string();
      paths.push_back(path.substr(path.find('/') + 1));
    }
    return paths;
  }
};

// The job was listed SUCCEEDED with two checkpoints whose files were gone, and all others deleted.
TEST_F(DataAdoptionTest, NothingPublishedIsLostByARestoreInPlace) {
  FakeWorker worker = Run("j");  // keep_checkpoints: 2
  PublishSteps(worker, 0, 8);
  BackUp();
  PublishSteps(worker, 16, 80);
  Leave(worker, v1::WorkerOutcome::KIND_SUCCEEDED);
  const std::vector<int64_t> before = Steps("j");
  RestoreInPlace();
  EXPECT_EQ(Steps("j"), before);
  EXPECT_EQ(State("j"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(EventReasons("j"), Contains("ADOPTED"));
  // And it is so with the next start, too.
  StartAgain();
  EXPECT_EQ(Steps("j"), before);
  EXPECT_THAT(SetAsidePaths(), IsEmpty());
}

TEST_F(DataAdoptionTest, AJobThatRanSinceGetsTheStateOfItsOutcomeFile) {
  const std::vector<std::pair<v1::WorkerOutcome::Kind, v1::JobState>> cases = {
      {v1::WorkerOutcome::KIND_SUCCEEDED, v1::JOB_STATE_SUCCEEDED},
      {v1::WorkerOutcome::KIND_FAILED, v1::JOB_STATE_FAILED},
      {v1::WorkerOutcome::KIND_PAUSED, v1::JOB_STATE_PAUSED},
      {v1::WorkerOutcome::KIND_CANCELLED, v1::JOB_STATE_CANCELLED}};
  for (const bool was_running : {false, true}) {
    for (const auto& [kind, state] : cases) {
      const std::string id = absl::StrCat("job-", was_running, "-", state);
      Create(id);
      if (!was_running) BackUp();
      FakeWorker worker = LaunchAndConnect();
      if (was_running) BackUp();
      PublishSteps(worker, 0, 0);
      if (kind == v1::WorkerOutcome::KIND_PAUSED) manager_->PauseJob(id).value();
      if (kind == v1::WorkerOutcome::KIND_CANCELLED) manager_->CancelJob(id).value();
      Leave(worker, kind);
      RestoreInPlace();
      EXPECT_EQ(State(id), state) << id;
      EXPECT_EQ(Get(id).attempt(), 1);
      EXPECT_THAT(Steps(id), ElementsAre(0));
      ASSERT_TRUE(fs_.Remove(Backup()).ok());
      if (state == v1::JOB_STATE_PAUSED) manager_->CancelJob(id).value();
    }
  }
}

TEST_F(DataAdoptionTest, AWorkerFromAfterTheBackupComesBackInItsAttempt) {
  Create("j");
  BackUp();
  FakeWorker worker = LaunchAndConnect();
  PublishSteps(worker, 0, 8);
  RestoreInPlace();
  EXPECT_EQ(State("j"), v1::JOB_STATE_STARTING);
  EXPECT_EQ(Get("j").attempt(), 1);
  ASSERT_TRUE(Connect(worker).ok());
  EXPECT_EQ(State("j"), v1::JOB_STATE_RUNNING);
  PublishSteps(worker, 16, 24);
  EXPECT_THAT(Steps("j"), ElementsAre(16, 24));
}

TEST_F(DataAdoptionTest, AnAttemptsNumberIsNotGivenTwiceIfItsWorkerIsDead) {
  Create("j");
  BackUp();
  FakeWorker worker = LaunchAndConnect();
  PublishSteps(worker, 0, 8);
  RestoreInPlace();
  Poll();  // Begins to listen for it.
  Advance(options_.silence_timeout + absl::Seconds(1));
  Poll();
  EXPECT_EQ(State("j"), v1::JOB_STATE_RECOVERING);
  Advance(options_.max_backoff);
  FakeWorker next = LaunchAndConnect();
  EXPECT_EQ(next.attempt.attempt, 2);
  EXPECT_EQ(next.connection->messages.at(0).welcome().checkpoint_folders_size(), 2);
  EXPECT_FALSE(Connect(worker).ok());
}

TEST_F(DataAdoptionTest, AJobMadeSinceIsMadeAgainFromItsFile) {
  BackUp();
  FakeWorker worker = Run("j");
  PublishSteps(worker, 0, 16);
  Leave(worker, v1::WorkerOutcome::KIND_SUCCEEDED);
  const v1::Job before = Get("j");
  RestoreInPlace();
  EXPECT_EQ(State("j"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(Steps("j"), ElementsAre(8, 16));
  EXPECT_EQ(Get("j").resolved_spec().DebugString(), before.resolved_spec().DebugString());
  EXPECT_EQ(Get("j").create_time().DebugString(), before.create_time().DebugString());
  EXPECT_EQ(Get("j").uid(), before.uid());
}

// A file of that time has the specification of a training job without a JobSpec around it.
TEST_F(DataAdoptionTest, AJobIsMadeAgainFromTheFileOfAnOlderServer) {
  BackUp();
  FakeWorker worker = Run("j");
  PublishSteps(worker, 0, 16);
  Leave(worker, v1::WorkerOutcome::KIND_SUCCEEDED);
  const v1::Job before = Get("j");
  v1::TrainingJobFile older;
  older.set_name("jobs/j");
  *older.mutable_spec() = before.spec().training();
  *older.mutable_resolved_spec() = before.resolved_spec().training();
  *older.mutable_create_time() = before.create_time();
  older.mutable_policy()->set_priority(7);
  older.set_memory_bytes(1000);
  std::string text;
  google::protobuf::TextFormat::PrintToString(older, &text);
  ASSERT_TRUE(WriteFileAtomically(fs_, Layout().JobFile("j"), text).ok());
  RestoreInPlace();
  EXPECT_EQ(State("j"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get("j").kind(), "training");
  EXPECT_THAT(Steps("j"), ElementsAre(8, 16));
  EXPECT_EQ(Get("j").resolved_spec().DebugString(), before.resolved_spec().DebugString());
  EXPECT_EQ(Get("j").policy().priority(), 7);
  EXPECT_EQ(Get("j").memory_bytes(), 1000);
}

// An id is given anew once the job that had it was removed.
TEST_F(DataAdoptionTest, AJobWhoseIdWasGivenAnewSinceTakesThePlaceOfTheOneBefore) {
  for (const bool backed_up_deleted : {false, true}) {
    const auto remove = [&] {
      ASSERT_TRUE(manager_->DeleteJob("j", false).ok());
      if (backed_up_deleted) BackUp();
      while (manager_->Tidy()) {
      }
    };
    FakeWorker first = Run("j");
    PublishSteps(first, 0, 0);
    Leave(first, v1::WorkerOutcome::KIND_FAILED);
    if (!backed_up_deleted) BackUp();
    remove();
    Advance(absl::Seconds(10));
    FakeWorker second = Run("j");
    PublishSteps(second, 8, 16);
    Leave(second, v1::WorkerOutcome::KIND_SUCCEEDED);
    RestoreInPlace();
    EXPECT_EQ(State("j"), v1::JOB_STATE_SUCCEEDED);
    EXPECT_THAT(Steps("j"), ElementsAre(8, 16));
    EXPECT_FALSE(manager_->Tidy());
    EXPECT_THAT(Steps("j"), ElementsAre(8, 16));
    ASSERT_TRUE(fs_.Remove(Backup()).ok());
    Advance(absl::Seconds(10));
    ASSERT_TRUE(manager_->DeleteJob("j", false).ok());
    while (manager_->Tidy()) {
    }
  }
}

// As of a job that was imported, or made by a lorsad that wrote no job files.
TEST_F(DataAdoptionTest, AJobWithoutAFileIsMadeAgainAsAnImportedOne) {
  BackUp();
  FakeWorker worker = Run("j");
  PublishImportable(worker);
  RemoveFileAndAttempts("j");
  RestoreInPlace();
  EXPECT_EQ(State("j"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Get("j").reason(), "IMPORTED");
  EXPECT_THAT(Steps("j"), ElementsAre(8));
}

// Its attempts made it train, which failed it, and each start made it anew without its pins.
TEST_F(DataAdoptionTest, AJobWhoseSetIsGoneStaysTheImportedOneThatItIsMade) {
  const v1::ActivationSet set = catalog_->GetActivationSet("set").value();
  ASSERT_TRUE(catalog_->DeleteActivationSet("set").ok());
  BackUp();
  ASSERT_TRUE(catalog_->CreateActivationSet(set).ok());
  FakeWorker worker = Run("j");
  PublishImportable(worker);
  const std::string file = ReadFile(fs_, Layout().JobFile("j"), 1 << 20).value();
  RestoreInPlace();
  EXPECT_EQ(State("j"), v1::JOB_STATE_SUCCEEDED);
  ASSERT_TRUE(catalog_->PinCheckpoint("j", AtStep(8), true).ok());
  Advance(absl::Seconds(10));
  StartAgain();
  EXPECT_EQ(State("j"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(catalog_->GetCheckpoint("j", 8)->pinned());
  EXPECT_EQ(ReadFile(fs_, Layout().JobFile("j"), 1 << 20).value(), file);
}

TEST_F(DataAdoptionTest, WhatCannotBeAdoptedIsSetAsideAndNothingIsDeleted) {
  FakeWorker worker = Run("j");
  PublishSteps(worker, 0, 8);
  BackUp();
  PublishSteps(worker, 16, 24);
  Leave(worker, v1::WorkerOutcome::KIND_SUCCEEDED);
  const std::string broken = Layout().CheckpointFolder("j", 24) + "/lorsa.safetensors";
  ASSERT_TRUE(WriteFileAtomically(fs_, broken, "broken").ok());
  ASSERT_TRUE(fs_.CreateDirectories(JoinPath(Layout().CheckpointsFolder("j"), "notes")).ok());
  ASSERT_TRUE(fs_.CreateDirectories(JoinPath(Layout().TrashFolder("j"), "step-000000001")).ok());
  ASSERT_TRUE(fs_.CreateDirectories(Layout().CheckpointFolder("unknown", 8)).ok());
  RestoreInPlace();
  EXPECT_THAT(Steps("j"), ElementsAre(16));
  const std::vector<std::string> aside = SetAsidePaths();
  for (const char* path :
       {"jobs/j/checkpoints/step-000000024/lorsa.safetensors", "jobs/j/checkpoints/notes",
        "jobs/j/trash/step-000000001", "jobs/unknown/checkpoints/step-000000008"}) {
    EXPECT_THAT(aside, Contains(path));
  }
}

// As when a backup is taken while the trash is being emptied.
TEST_F(DataAdoptionTest, NotesOfDeletionsInAnOlderCatalogDeleteNothing) {
  EndAfterABackupWithADeletion();
  RestoreInPlace();
  EXPECT_THAT(Steps("j"), ElementsAre(0, 8));
}

// The server went on after it, and the notes of the older catalog decided which folders went.
TEST_F(DataAdoptionTest, AFailureThatMayPassFailsTheStartAndDeletesNothing) {
  EndAfterABackupWithADeletion();
  for (const char* operation : {"open", "list", "rename", "create"}) {
    PutBack();
    bool failed = true;
    for (int successes = 0; failed; ++successes) {
      Restart();
      FailingFileSystem failing(operation, successes);
      manager_ = std::make_unique<JobManager>(options_, Environment(failing));
      const absl::Status status = AdoptData();
      failed = failing.failed();
      EXPECT_TRUE(failed || status.ok()) << status;
      EXPECT_TRUE(!status.ok() || catalog_->Generation().value() != kGenerationOfCopy)
          << operation << ": the server starts, and its catalog is still older";
      for (const int64_t step : {0, 8}) {
        EXPECT_TRUE(fs_.Exists(Layout().CheckpointFolder("j", step)).value())
            << operation << " failed after " << successes;
      }
      manager_.reset();  // It refers to `failing`.
    }
    StartAgain();
    EXPECT_THAT(Steps("j"), ElementsAre(0, 8)) << operation;
  }
}

// A checkpoint that could not be read just then counted as none: an imported job was set aside, a
// checkpoint lost its FVU, and a worker's token was forgotten.
TEST_F(DataAdoptionTest, AReadThatFailsForATimeChangesNothingOfWhatIsAdopted) {
  BackUp();
  FakeWorker first = Run("imported");
  PublishImportable(first);
  Leave(first, v1::WorkerOutcome::KIND_SUCCEEDED);
  RemoveFileAndAttempts("imported");
  FakeWorker second = Run("ended");
  PublishImportable(second);
  Leave(second, v1::WorkerOutcome::KIND_SUCCEEDED);
  FakeWorker worker = Run("running");
  PublishImportable(worker);
  const auto is_adopted = [&] {
    for (const char* id : {"imported", "ended", "running"}) {
      const auto checkpoint = catalog_->GetCheckpoint(id, 8);
      if (!checkpoint.ok() || checkpoint->fvu() != 0.25) return false;
    }
    return Get("imported").reason() == "IMPORTED" && State("ended") == v1::JOB_STATE_SUCCEEDED &&
           State("running") == v1::JOB_STATE_STARTING &&
           catalog_->FindAttempt(Sha256Hex(worker.bootstrap.token())).ok();
  };
  for (const int failures : {1, FailingFileSystem::kForever}) {
    bool failed = true;
    for (int successes = 0; failed; ++successes) {
      PutBack();
      Restart();
      FailingFileSystem failing("open", successes, failures);
      manager_ = std::make_unique<JobManager>(options_, Environment(failing));
      const absl::Status status = AdoptData();
      failed = failing.failed();
      EXPECT_TRUE(status.ok() ? is_adopted() : failed) << "failed after " << successes << status;
      manager_.reset();  // It refers to `failing`.
      StartAgain();
      ASSERT_TRUE(is_adopted()) << "failed after " << successes;
    }
  }
}

TEST_F(DataAdoptionTest, SetsThatCannotBeAdoptedJustNowFailTheStart) {
  FakeWorker worker = Run("j");
  PublishSteps(worker, 0, 8);
  BackUp();
  Leave(worker, v1::WorkerOutcome::KIND_SUCCEEDED);
  PutBack();
  Restart();
  const auto full = [] { return absl::ResourceExhaustedError("the disk is full"); };
  EXPECT_EQ(manager_->AdoptData(full), full());
  const int64_t generation = catalog_->Generation().value();
  EXPECT_EQ(generation, kGenerationOfCopy) << "the next start adopts again";
  StartAgain();
  EXPECT_THAT(Steps("j"), ElementsAre(0, 8));
}

TEST_F(DataAdoptionTest, APublicationThatWasCutOffIsCompletedByTheNextStart) {
  FakeWorker worker = Run("j");
  PublishSteps(worker, 0, 0);
  const v1::CheckpointStaged staged = Stage(worker, 8);
  ASSERT_TRUE(fs_.Rename(JoinPath(worker.bootstrap.staging_folder(), staged.folder()),
                         Layout().CheckpointFolder("j", 8))
                  .ok());
  StartAgain();
  EXPECT_THAT(Steps("j"), ElementsAre(0, 8));
}

// Only a catalog that is older explains it; otherwise it is damage, which raises an alarm.
TEST_F(DataAdoptionTest, AMissingFolderLeavesTheListOfAnOlderCatalogAlone) {
  FakeWorker worker = Run("j");
  PublishSteps(worker, 0, 8);
  ASSERT_TRUE(catalog_->PinCheckpoint("j", AtStep(0), true).ok());
  Leave(worker, v1::WorkerOutcome::KIND_SUCCEEDED);
  BackUp();
  ASSERT_TRUE(fs_.RemoveAll(Layout().CheckpointFolder("j", 0)).ok());
  ASSERT_TRUE(fs_.RemoveAll(Layout().CheckpointFolder("j", 8)).ok());
  StartAgain();
  EXPECT_EQ(catalog_->ListCheckpoints("j")->size(), 2u);
  RestoreInPlace();
  const auto left = catalog_->ListCheckpoints("j").value();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_TRUE(left.front().pinned());
}

TEST_F(DataAdoptionTest, AJobThatWasRemovedSinceListsNoCheckpoints) {
  FakeWorker worker = Run("j");
  PublishSteps(worker, 0, 8);
  Leave(worker, v1::WorkerOutcome::KIND_SUCCEEDED);
  BackUp();
  ASSERT_TRUE(manager_->DeleteJob("j", false).ok());
  while (manager_->Tidy()) {
  }
  RestoreInPlace();
  EXPECT_EQ(State("j"), v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(catalog_->ListCheckpoints("j").value(), IsEmpty());
}

// As a copy of the file made with cp has it.
TEST_F(DataAdoptionTest, AnEarlierGenerationIsNoticed) {
  FakeWorker worker = Run("j");
  PublishSteps(worker, 0, 8);
  Leave(worker, v1::WorkerOutcome::KIND_SUCCEEDED);
  const int64_t generation = catalog_->Generation().value();
  StartAgain();
  EXPECT_EQ(catalog_->Generation().value(), generation + 1);
  ASSERT_TRUE(catalog_->SetGeneration(generation).ok());
  ASSERT_TRUE(fs_.RemoveAll(Layout().CheckpointFolder("j", 0)).ok());
  StartAgain();
  EXPECT_THAT(Steps("j"), ElementsAre(8));
  EXPECT_EQ(catalog_->Generation().value(), generation + 2);
}

}  // namespace
}  // namespace lorsa::server

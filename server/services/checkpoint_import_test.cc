// Import of checkpoint folders, honest and hostile.
#include "server/services/checkpoint_import.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/failing_file_system.h"
#include "base/safetensors.h"
#include "base/scratch_folder.h"
#include "base/sha256.h"
#include "server/jobs/checkpoint_files.h"
#include "server/jobs/jobs_test_fixture.h"

namespace lorsa::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class CheckpointImportTest : public testing::Test {
 protected:
  CheckpointImportTest() {
    std::filesystem::create_directories(layout_.root());
    catalog_ = Catalog::Open(layout_.CatalogFile()).value();
    std::filesystem::create_directories(Source());
    config_ = {
        {"format", "lorsa-checkpoint"},
        {"format_version", 1},
        {"d_model", 4},
        {"n_ov_heads", 6},
        {"n_qk_heads", 2},
        {"d_qk", 3},
        {"top_k", 2},
        {"context", 8},
        {"decoder_bias", true},
        {"selection", "signed"},
        {"select_by_decoder_norm", true},
        {"attn_scale", 1.5},
        {"rope",
         {{"base", 500}, {"rotary_dim", 2}, {"adjacent_pairs", true}, {"ntk_by_parts", nullptr}}},
        {"qk_norm", nullptr},
        {"input_scale", 2},
        {"output_scale", 0.5},
        {"hook_convention", "transformers.self_attn"},
        {"layer", 3},
        {"model", {{"name", "model"}, {"revision", ""}}}};
    shapes_ = {{"W_Q", {2, 4, 3}}, {"W_K", {2, 4, 3}}, {"b_Q", {2, 3}}, {"b_K", {2, 3}},
               {"W_V", {6, 4}},    {"b_V", {6}},       {"W_O", {6, 4}}, {"b_D", {4}}};
    state_ = {{"format", "lorsa-training-state"},
              {"format_version", 1},
              {"step", 70},
              {"sequences_consumed", 100},
              {"fvu", 0.25}};
  }

  std::string Source() const { return folder_.Path("source"); }
  std::string SourceFile(const std::string& name) const { return Source() + "/" + name; }

  void Write(const std::string& name, const std::string& contents) {
    std::ofstream(SourceFile(name), std::ios::binary) << contents;
  }

  // The folder as config_, shapes_ and state_ say, with a manifest that is right.
  void WriteSource() {
    Write("config.json", config_.dump());
    Write("state.json", state_.dump());
    std::vector<SafetensorsTensor> tensors;
    const std::vector<float> zeros(1000);
    for (const auto& [name, shape] : shapes_) {
      size_t bytes = sizeof(float);
      for (const int64_t n : shape) bytes *= static_cast<size_t>(n);
      tensors.push_back({name, "F32", shape, {reinterpret_cast<const char*>(zeros.data()), bytes}});
    }
    ASSERT_TRUE(WriteSafetensors(fs_, SourceFile("lorsa.safetensors"), tensors).ok());
    WriteManifest({"config.json", "state.json", "lorsa.safetensors"});
  }

  void WriteManifest(const std::vector<std::string>& names) {
    json files = json::object();
    for (const std::string& name : names) {
      files[name] = {{"bytes", std::filesystem::file_size(SourceFile(name))},
                     {"sha256", Sha256OfFile(fs_, SourceFile(name)).value()}};
    }
    Write("manifest.json", json({{"files", files}}).dump());
  }

  JobEnvironment Jobs(FileSystem& fs) {
    return {.catalog = *catalog_,
            .fs = fs,
            .launcher = launcher_,
            .watchers = hub_,
            .kinds = kinds_,
            .layout = layout_,
            .now = absl::Now};
  }
  absl::StatusOr<v1::Checkpoint> Import(FileSystem& fs) {
    JobManager jobs({}, Jobs(fs));
    return ImportCheckpoint(
        {.catalog = *catalog_, .fs = fs, .jobs = jobs, .inspector = inspector_, .layout = layout_},
        "imported", Source(), [](int64_t, int64_t) { return true; });
  }
  absl::StatusOr<v1::Checkpoint> Import() { return Import(fs_); }

  // The import fails with a sentence that has `part`, and leaves nothing.
  void ExpectRefused(const std::string& part) {
    const absl::Status status = Import().status();
    EXPECT_TRUE(IsDamage(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_TRUE(absl::IsNotFound(catalog_->GetJob("imported").status()));
    EXPECT_FALSE(std::filesystem::exists(layout_.ImportFolder("imported")));
    EXPECT_FALSE(std::filesystem::exists(layout_.JobFolder("imported")));
  }

  ScratchFolder folder_;
  PosixFileSystem fs_;
  const Inspector inspector_{fs_, LORSA_INSPECT_PROGRAM};
  const DataLayout layout_{folder_.Path("data")};
  FakeLauncher launcher_;
  JobWatchHub hub_;
  JobKinds kinds_;
  std::unique_ptr<Catalog> catalog_;
  json config_, state_;
  std::map<std::string, std::vector<int64_t>> shapes_;
};

TEST_F(CheckpointImportTest, MakesAJobThatHasEndedWithACopyOfTheFiles) {
  WriteSource();
  const auto checkpoint = Import();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->name(), "jobs/imported/checkpoints/step-000000070");
  EXPECT_EQ(checkpoint->tokens(), 800);
  EXPECT_EQ(checkpoint->fvu(), 0.25);
  EXPECT_EQ(checkpoint->files_size(), 4);
  std::filesystem::remove_all(Source());
  EXPECT_TRUE(VerifyCheckpointFiles(fs_, layout_.CheckpointFolder("imported", 70),
                                    ManifestSha256(*checkpoint))
                  .ok());
  const v1::Job job = catalog_->GetJob("imported")->job;
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(job.reason(), "IMPORTED");
  v1::TrainingSpec spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(n_ov_heads: 6
           n_qk_heads: 2
           d_qk: 3
           top_k: 2
           selection: SELECTION_SIGNED
           select_by_decoder_norm: true
           decoder_bias: true
           attn_scale: 1.5
           rope { base: 500 rotary_dim: 2 adjacent_pairs: true })pb",
      &spec));
  EXPECT_EQ(job.resolved_spec().training().DebugString(), spec.DebugString());
  EXPECT_TRUE(job.has_end_time());
  const auto events = catalog_->ListEvents("imported", 0, 10).value();
  EXPECT_EQ(events.back().revision(), job.revision());
  EXPECT_EQ(events.back().to_state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_FALSE(std::filesystem::exists(layout_.ImportFolder("imported")));
}

TEST_F(CheckpointImportTest, AnIdIsTakenOnce) {
  WriteSource();
  ASSERT_TRUE(Import().ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Import().status()));
}

TEST_F(CheckpointImportTest, NeedsNoStateToGoOnFrom) {
  WriteSource();
  std::filesystem::remove(SourceFile("state.json"));
  WriteManifest({"config.json", "lorsa.safetensors"});
  const auto checkpoint = Import();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->step(), 0);
  EXPECT_FALSE(checkpoint->has_fvu());
}

TEST_F(CheckpointImportTest, DamageIsNamedByFile) {
  WriteSource();
  Write("config.json", config_.dump() + " ");
  ExpectRefused("config.json");
  WriteSource();
  Write("config.json", std::string(config_.dump().size(), 'x'));
  ExpectRefused("config.json");
  WriteSource();
  std::filesystem::remove(SourceFile("lorsa.safetensors"));
  ExpectRefused("lorsa.safetensors");
}

TEST_F(CheckpointImportTest, WeightsThatDoNotFitTheirConfigurationAreRefused) {
  const auto shapes = shapes_;
  shapes_["W_V"] = {6, 5};
  WriteSource();
  ExpectRefused("W_V");
  shapes_ = shapes;
  shapes_.erase("b_D");
  WriteSource();
  ExpectRefused("b_D");
  shapes_ = shapes;
  shapes_["more"] = {1};
  WriteSource();
  ExpectRefused("does not speak of");
}

TEST_F(CheckpointImportTest, HostileNumbersAndFormsAreRefused) {
  const json config = config_, state = state_;
  for (const auto& [key, value] : std::map<std::string, json>{{"d_model", int64_t{1} << 60},
                                                              {"n_ov_heads", -1},
                                                              {"d_qk", 2.5},
                                                              {"context", "8"},
                                                              {"format", "pickle"},
                                                              {"format", 5},
                                                              {"format_version", 2}}) {
    config_[key] = value;
    WriteSource();
    ExpectRefused("config.json");
    config_ = config;
  }
  for (const auto& [key, value] :
       std::map<std::string, json>{{"step", 1'000'000'000}, {"sequences_consumed", -1}}) {
    state_[key] = value;
    WriteSource();
    ExpectRefused("state.json");
    state_ = state;
  }
  WriteSource();
  Write("config.json", std::string(2 << 20, ' '));
  WriteManifest({"config.json", "state.json", "lorsa.safetensors"});
  ExpectRefused("config.json");
  WriteSource();
  Write("config.json", "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}");
  WriteManifest({"config.json", "state.json", "lorsa.safetensors"});
  ExpectRefused("config.json");
}

TEST_F(CheckpointImportTest, HostileManifestsAndFilesAreRefused) {
  WriteSource();
  Write("manifest.json", R"({"files":{"../data/catalog.sqlite":{"bytes":1,"sha256":"00"}}})");
  ExpectRefused("manifest.json");
  Write("manifest.json", "[]");
  ExpectRefused("manifest.json");
  Write("manifest.json", std::string(2 << 20, ' '));
  ExpectRefused("manifest.json");
  WriteSource();
  std::filesystem::rename(SourceFile("config.json"), folder_.Path("config.json"));
  std::filesystem::create_symlink(folder_.Path("config.json"), SourceFile("config.json"));
  ExpectRefused("config.json");
  std::filesystem::remove(SourceFile("config.json"));
  WriteSource();
  // A header that announces far more tensors' bytes than there are.
  Write("lorsa.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8));
  WriteManifest({"config.json", "state.json", "lorsa.safetensors"});
  ExpectRefused("lorsa.safetensors");
}

TEST_F(CheckpointImportTest, WhatDoesNotFitBesideTheReserveIsRefused) {
  WriteSource();
  JobManager jobs({}, Jobs(fs_));
  const absl::Status status =
      ImportCheckpoint({.catalog = *catalog_,
                        .fs = fs_,
                        .jobs = jobs,
                        .inspector = inspector_,
                        .layout = layout_,
                        .disk_reserve_bytes = int64_t{1} << 60},
                       "imported", Source(), [](int64_t, int64_t) { return true; })
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(CheckpointImportTest, AJobOfTheSameIdThatIsMadeMeanwhileStands) {
  WriteSource();
  JobManager jobs({}, Jobs(fs_));
  bool made = false;
  const auto make_the_job = [&](int64_t, int64_t) {
    if (!std::exchange(made, true)) {
      EXPECT_TRUE(jobs.CreateJob({.id = "imported"}).ok());
    }
    return true;
  };
  const absl::Status status = ImportCheckpoint({.catalog = *catalog_,
                                                .fs = fs_,
                                                .jobs = jobs,
                                                .inspector = inspector_,
                                                .layout = layout_},
                                               "imported", Source(), make_the_job)
                                  .status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_FALSE(std::filesystem::exists(layout_.JobFolder("imported")));
  EXPECT_FALSE(std::filesystem::exists(layout_.ImportFolder("imported")));
}

// A job of the same id that was made between the move and the commit took the folder away.
TEST_F(CheckpointImportTest, NoJobIsMadeBetweenTheMoveAndTheCommit) {
  WriteSource();
  JobEnvironment env = Jobs(fs_);
  std::function<void()> before_commit = [] {};
  std::atomic<bool> moved = false;
  env.now = [&] {  // Asked for as the time of the commit.
    const std::string folder = layout_.CheckpointFolder("imported", 70);
    if (fs_.Exists(folder).value() && !moved.exchange(true)) before_commit();
    return absl::Now();
  };
  JobManager jobs({}, env);
  absl::Notification tried;
  std::thread other;
  before_commit = [&] {
    other = std::thread([&] {
      jobs.CreateJob({.id = "imported"}).IgnoreError();
      tried.Notify();
    });
    tried.WaitForNotificationWithTimeout(absl::Milliseconds(200));
  };
  const auto imported = ImportCheckpoint(
      {.catalog = *catalog_, .fs = fs_, .jobs = jobs, .inspector = inspector_, .layout = layout_},
      "imported", Source(), [](int64_t, int64_t) { return true; });
  other.join();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const std::string folder = layout_.CheckpointFolder("imported", 70);
  EXPECT_TRUE(VerifyCheckpointFiles(fs_, folder, ManifestSha256(*imported)).ok());
}

TEST_F(CheckpointImportTest, WhatLiesInTheFolderOfItsIdIsSetAside) {
  WriteSource();
  ASSERT_TRUE(fs_.CreateDirectories(layout_.CheckpointFolder("imported", 70)).ok());
  ASSERT_TRUE(WriteFileAtomically(fs_, layout_.RollbacksFile("imported"), "another job's").ok());
  ASSERT_TRUE(Import().ok());
  EXPECT_FALSE(std::filesystem::exists(layout_.RollbacksFile("imported")));
  EXPECT_EQ(fs_.List(layout_.LostAndFoundFolder())->size(), 1u);
}

TEST_F(CheckpointImportTest, AFailureOfTheDiskMakesNoJobAndTheNextTryGoesWell) {
  for (const char* operation :
       {"create", "append", "sync", "close", "syncdir", "rename", "mkdir"}) {
    WriteSource();
    FailingFileSystem failing(operation);
    EXPECT_TRUE(absl::IsResourceExhausted(Import(failing).status())) << operation;
    EXPECT_TRUE(absl::IsNotFound(catalog_->GetJob("imported").status())) << operation;
  }
  EXPECT_TRUE(Import().ok());
}

}  // namespace
}  // namespace lorsa::server

#include "trainer/train/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/failing_file_system.h"
#include "base/scratch_folder.h"
#include "base/sha256.h"

namespace lorsa::trainer {
namespace {

using testing::HasSubstr;

LorsaParameters RandomParameters(const LorsaConfig& config, at::Generator& generator) {
  LorsaParameters parameters = ZeroParameters(config, at::kCPU);
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    (parameters.*spec.member).copy_(at::randn(spec.shape, generator));
  }
  return parameters;
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{2});
    checkpoint_.config = {
        .lorsa = {.d_model = 6,
                  .n_ov_heads = 8,
                  .n_qk_heads = 2,
                  .d_qk = 4,
                  .top_k = 3,
                  .attn_scale = 2,
                  .rope = store::Rope{.base = 1e4,
                                      .rotary_dim = 4,
                                      .ntk_by_parts =
                                          store::NtkByParts{.factor = 8, .original_context = 64}},
                  .qk_norm = store::QkNorm{.epsilon = 1e-5}},
        .context = 16,
        .input_scale = 2.65409476553504,
        .output_scale = 0.1,
        .hook_convention = "transformers.self_attn",
        .model = "m",
        .model_revision = "r",
        .layer = 12};
    TrainingState& state = checkpoint_.state;
    state.parameters = RandomParameters(checkpoint_.config.lorsa, generator);
    state.adam.mean = RandomParameters(checkpoint_.config.lorsa, generator);
    state.adam.variance = RandomParameters(checkpoint_.config.lorsa, generator);
    state.adam.steps = 40;
    state.tokens_since_fired = at::arange(8, at::kLong);
    state.counts = {.step = 42,
                    .sequences_consumed = 336,
                    .seed = std::numeric_limits<uint64_t>::max(),
                    .precision = Precision::kBf16,
                    .skipped_batches = 2,
                    .evaluated_step = 40,
                    .fvu = 0.3,
                    .best_fvu = 0.25};
    checkpoint_.environment = CurrentEnvironment(/*ranks=*/2);
  }

  absl::StatusOr<std::string> Write() {
    return WriteCheckpoint(fs_, folder_, ContentsOf(checkpoint_), absl::UnixEpoch());
  }
  std::string Text(const std::string& name) {
    return ReadFile(fs_, JoinPath(folder_, name), 1 << 20).value();
  }
  void Overwrite(const std::string& name, const std::string& contents) {
    std::ofstream(JoinPath(folder_, name), std::ios::binary) << contents;
  }
  // Changes a file and its entry in the manifest, as one who forges a checkpoint would.
  void Forge(const std::string& name, const std::string& contents) {
    const std::string old = Text(name);
    const std::string manifest = absl::StrReplaceAll(
        Text("manifest.json"), {{Sha256Hex(old), Sha256Hex(contents)},
                                {absl::StrCat("\"bytes\": ", old.size(), ","),
                                 absl::StrCat("\"bytes\": ", contents.size(), ",")}});
    Overwrite(name, contents);
    Overwrite("manifest.json", manifest);
  }
  absl::Status ReadStatus() { return ReadCheckpoint(fs_, folder_, at::kCPU).status(); }
  void ExpectDamage(const std::string& what) {
    const absl::Status status = ReadStatus();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  }

  PosixFileSystem fs_;
  Checkpoint checkpoint_;
  const ScratchFolder scratch_;
  const std::string folder_ = scratch_.Path("checkpoint");
};

TEST_F(CheckpointTest, WhatIsWrittenIsRead) {
  const auto sha256 = Write();
  ASSERT_TRUE(sha256.ok()) << sha256.status();
  EXPECT_EQ(*sha256, Sha256Hex(Text("manifest.json")));
  const auto read = ReadCheckpoint(fs_, folder_, at::kCPU);
  ASSERT_TRUE(read.ok()) << read.status();
  for (const ParameterSpec& spec : ParameterSpecs(checkpoint_.config.lorsa)) {
    const auto same = [&](const LorsaParameters& a, const LorsaParameters& b) {
      return (a.*spec.member).equal(b.*spec.member);
    };
    EXPECT_TRUE(same(read->state.parameters, checkpoint_.state.parameters)) << spec.name;
    EXPECT_TRUE(same(read->state.adam.mean, checkpoint_.state.adam.mean)) << spec.name;
    EXPECT_TRUE(same(read->state.adam.variance, checkpoint_.state.adam.variance)) << spec.name;
  }
  EXPECT_TRUE(read->state.tokens_since_fired.equal(checkpoint_.state.tokens_since_fired));
  EXPECT_EQ(read->state.adam.steps, 40);
  EXPECT_EQ(FormatTrainingCounts(read->state.counts),
            FormatTrainingCounts(checkpoint_.state.counts));
  EXPECT_EQ(FormatCheckpointConfig(read->config), FormatCheckpointConfig(checkpoint_.config));
  EXPECT_EQ(read->config.input_scale, checkpoint_.config.input_scale);
  EXPECT_EQ(read->environment, checkpoint_.environment);
}

TEST_F(CheckpointTest, TheAverageIsPublishedAndTheTrainedWeightsAreState) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{9});
  TrainingState& state = checkpoint_.state;
  state.averaged = RandomParameters(checkpoint_.config.lorsa, generator);
  state.counts.refitted = true;
  ASSERT_TRUE(Write().ok());
  const auto weights = TensorFile::Open(fs_, JoinPath(folder_, "lorsa.safetensors"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE(weights->Read("W_O")->equal(state.averaged->w_o));
  const auto read = ReadCheckpoint(fs_, folder_, at::kCPU);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->state.counts.refitted);
  for (const ParameterSpec& spec : ParameterSpecs(checkpoint_.config.lorsa)) {
    EXPECT_TRUE((read->state.parameters.*spec.member).equal(state.parameters.*spec.member));
    EXPECT_TRUE((*read->state.averaged.*spec.member).equal(*state.averaged.*spec.member));
  }
}

TEST_F(CheckpointTest, OnlyTheManifestHoldsTheDate) {
  ASSERT_TRUE(Write().ok());
  std::map<std::string, std::string> first;
  const auto names = fs_.List(folder_);
  ASSERT_TRUE(names.ok()) << names.status();
  for (const std::string& name : *names) first[name] = Text(name);
  ASSERT_TRUE(
      WriteCheckpoint(fs_, folder_, ContentsOf(checkpoint_), absl::UnixEpoch() + absl::Hours(1))
          .ok());
  EXPECT_EQ(first.size(), 5);
  for (const auto& [name, contents] : first) {
    EXPECT_EQ(Text(name) == contents, name != "manifest.json") << name;
  }
}

TEST_F(CheckpointTest, AnyFlippedBitTruncationOrMissingFileIsNamed) {
  for (const std::string name :
       {"lorsa.safetensors", "state.safetensors", "config.json", "state.json"}) {
    ASSERT_TRUE(Write().ok());
    std::string contents = Text(name);
    contents[contents.size() / 2] ^= 4;
    Overwrite(name, contents);
    ExpectDamage(name);
    Overwrite(name, contents.substr(1));
    ExpectDamage(name);
    ASSERT_TRUE(fs_.Remove(JoinPath(folder_, name)).ok());
    EXPECT_THAT(std::string(ReadStatus().message()), HasSubstr(name));
  }
  ASSERT_TRUE(Write().ok());
  Overwrite("manifest.json", Text("manifest.json").substr(10));
  ExpectDamage("manifest.json");
}

TEST_F(CheckpointTest, AForgedConfigurationIsRefusedBeforeMemoryIsTaken) {
  const std::vector<std::pair<std::string, std::string>> forgeries = {
      {"\"n_ov_heads\": 8", "\"n_ov_heads\": 1048576"},  // shapes of the files disagree
      {"\"d_model\": 6", "\"d_model\": 9223372036854775807"},
      {"\"d_qk\": 4", "\"d_qk\": -4"},
      {"\"top_k\": 3", "\"top_k\": 9"},
      {"\"selection\": \"relu\"", "\"selection\": \"other\""},
      {"\"layer\": 12", "\"layer\": 12, \"surprise\": 1"},
      {"\"rotary_dim\": 4", "\"rotary_dim\": 6"},
      {"\"attn_scale\": 2.0", "\"attn_scale\": 1e999"},
  };
  for (const auto& [from, to] : forgeries) {
    ASSERT_TRUE(Write().ok());
    const std::string config = absl::StrReplaceAll(Text("config.json"), {{from, to}});
    ASSERT_NE(config, Text("config.json")) << from;
    Forge("config.json", config);
    const absl::Status status = ReadStatus();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << to << ": " << status;
  }
}

TEST_F(CheckpointTest, NumbersThatAreNotFiniteAreNeverWritten) {
  checkpoint_.state.adam.variance.b_v[3] = std::numeric_limits<double>::infinity();
  const auto written = Write();
  EXPECT_EQ(written.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(written.status().message()), HasSubstr("adam.variance.b_V"));
}

TEST_F(CheckpointTest, AFailureOfAnyOperationIsReportedAndLeavesNoCheckpoint) {
  for (const char* operation : {"create", "append", "sync", "close", "syncdir", "mkdir", "open"}) {
    for (int successes = 0;; ++successes) {
      FailingFileSystem failing(operation, successes);
      const auto written =
          WriteCheckpoint(failing, folder_, ContentsOf(checkpoint_), absl::UnixEpoch());
      if (!failing.failed()) {
        EXPECT_TRUE(written.ok()) << written.status();
        EXPECT_GT(successes, 0) << operation << " is never called";
        break;
      }
      EXPECT_TRUE(absl::IsResourceExhausted(written.status())) << operation << written.status();
      EXPECT_FALSE(*fs_.Exists(folder_)) << operation;
    }
  }
}

TEST(CheckpointFolderTest, TheStepIsReadFromTheName) {
  EXPECT_EQ(StepOfCheckpointFolder("/a/step-5/step-000001000"), 1000);
  EXPECT_EQ(StepOfCheckpointFolder("step-12345678901"), 12345678901);
  for (const char* name : {"", "step-", "step-12", "step-00000001x", "step--00000012", "a/b"}) {
    EXPECT_EQ(StepOfCheckpointFolder(name), -1) << name;
  }
}

TEST(CheckpointFolderTest, NamesSortByStep) {
  EXPECT_EQ(CheckpointFolderName(1000), "step-000001000");
  EXPECT_LT(CheckpointFolderName(999), CheckpointFolderName(1000));
}

// OMP_THREAD_LIMIT gives fewer threads than were asked for, and so other bits; OpenMP reads it when
// the program is loaded.
TEST(EnvironmentDeathTest, RecordsTheThreadsThatItGets) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // executes the program anew
  const auto exit_with_threads = [] {
    at::set_num_threads(2);
    std::exit(static_cast<int>(CurrentEnvironment(/*ranks=*/1).threads));
  };
  EXPECT_EXIT(exit_with_threads(), testing::ExitedWithCode(2), "");
  setenv("OMP_THREAD_LIMIT", "1", /*replace=*/1);
  EXPECT_EXIT(exit_with_threads(), testing::ExitedWithCode(1), "");
  unsetenv("OMP_THREAD_LIMIT");
}

}  // namespace
}  // namespace lorsa::trainer

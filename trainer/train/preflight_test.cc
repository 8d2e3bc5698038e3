#include "trainer/train/preflight.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cstdio>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "base/scratch_folder.h"
#include "trainer/resources/resource_estimate.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/testing/fake_host.h"
#include "trainer/train/training_run.h"

namespace lorsa::trainer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kModel = 256, kContext = 128;

// Large enough that what a run takes stands out from the process.
SyntheticSet LargerSet() {
  SyntheticSet set;
  const int64_t sequences = 160;
  const at::Tensor x = at::randn({sequences, kContext, kModel});
  for (int64_t i = 0; i < sequences; ++i) {
    const std::string bytes(static_cast<const char*>(x[i].const_data_ptr()), x[i].nbytes());
    set.sequences.push_back({.index = i,
                             .mhsa_input = bytes,
                             .mhsa_output = bytes,
                             .tokens = std::string(4 * kContext, 0),
                             .mask = std::string(kContext, 1)});
  }
  set.manifest = {.d_model = kModel,
                  .context = kContext,
                  .element_type = store::ElementType::kFloat32,
                  .sequences = sequences,
                  .mean_input_norm = 16,
                  .mean_output_norm = 16};
  return set;
}

TrainConfig LargerConfig(const SyntheticSet& set) {
  return {.lorsa = {.d_model = kModel,
                    .n_ov_heads = 2048,
                    .n_qk_heads = 16,
                    .d_qk = 32,
                    .top_k = 32,
                    .attn_scale = 5},
          .set = set.manifest,
          .initialization = Initialization::kRandom,
          .total_tokens = 6 * 16 * kContext,
          .sequences_per_step = 16,
          .evaluation_interval_tokens = 6 * 16 * kContext,
          .checkpoint_interval_tokens = 2 * 16 * kContext};
}

TEST(PreflightTest, MemoryThatDoesNotSufficeIsRefusedWithNumbersAndFields) {
  const SyntheticSet set = MakeSyntheticSet(160);
  TrainConfig config = SyntheticConfig(set);
  const ScratchFolder scratch;
  FakeHost host(set, 0, scratch.path());
  const int64_t need = EstimateResources(config).memory();
  host.memory.resident = 1000;
  host.memory.available = need - 1000;
  EXPECT_TRUE(CheckResources(config, host, true).ok());
  host.memory.available = need - 1001;
  const absl::Status refused = CheckResources(config, host, false);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr(BytesText(need)), HasSubstr("sequences_per_step"), HasSubstr("available")));
  // One sequence a step, and many heads: the weights are what takes most.
  TrainConfig large = LargerConfig(LargerSet());
  large.lorsa.n_ov_heads = 1 << 20;
  large.sequences_per_step = 1;
  EXPECT_THAT(std::string(CheckResources(large, host, false).message()),
              HasSubstr("lower n_ov_heads"));
  // The run asks before it reads anything.
  EXPECT_TRUE(absl::IsFailedPrecondition(RunTraining(config, host, {}).status()));
  EXPECT_TRUE(host.published.empty());
}

TEST(PreflightTest, ADiskThatIsTooSmallIsRefusedOnlyBeforeTheFirstStep) {
  const SyntheticSet set = MakeSyntheticSet(160);
  const TrainConfig config = SyntheticConfig(set);
  const ScratchFolder scratch;
  FakeHost host(set, 0, scratch.path());
  host.staging = scratch.Path("small");
  std::filesystem::create_directory(host.staging);
  ASSERT_EQ(mount("tmpfs", host.staging.c_str(), "tmpfs", 0, "size=128k"), 0);
  const absl::Status fresh = CheckResources(config, host, true);
  const absl::Status resumed = CheckResources(config, host, false);
  ASSERT_EQ(umount(host.staging.c_str()), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(fresh)) << fresh;
  EXPECT_THAT(std::string(fresh.message()),
              AllOf(HasSubstr("keep_checkpoints"), HasSubstr(host.staging)));
  EXPECT_TRUE(resumed.ok()) << resumed;
}

TEST(ResourceEstimateTest, ACheckpointTakesWhatWasEstimated) {
  const SyntheticSet set = LargerSet();
  TrainConfig config = LargerConfig(set);
  config.total_tokens = config.tokens_per_step();
  const ScratchFolder scratch;
  FakeHost host(set, 0, scratch.path());
  ASSERT_TRUE(RunTraining(config, host, {}).ok());
  int64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(host.CheckpointFolder(1))) {
    bytes += static_cast<int64_t>(file.file_size());
  }
  EXPECT_NEAR(static_cast<double>(EstimateResources(config).checkpoint) / bytes, 1, 0.05);
}

TEST(ResourceEstimateTest, KeptCheckpointsByHand) {
  TrainConfig config = SyntheticConfig(MakeSyntheticSet(160));  // 20 steps of 24, one each 5
  // Steps 0, 5, 10, 15 and 20; a pause may add one; and the one being written.
  config.keep_checkpoints = 100;
  EXPECT_EQ(EstimateResources(config).kept_checkpoints, 7);
  config.keep_checkpoints = 2;  // and the best
  EXPECT_EQ(EstimateResources(config).kept_checkpoints, 4);
  config.keep_every_tokens = 240;  // steps 0, 10 and 20
  EXPECT_EQ(EstimateResources(config).kept_checkpoints, 7);
  // Every checkpoint is evaluated: the best is among the newest.
  config.keep_every_tokens = 0;
  config.evaluation_interval_tokens = config.checkpoint_interval_tokens;
  EXPECT_EQ(EstimateResources(config).kept_checkpoints, 3);
}

TEST(ResourceEstimateTest, RanksShareAStepAndEachHasItsWeights) {
  TrainConfig config = LargerConfig(LargerSet());
  const ResourceEstimate alone = EstimateResources(config);
  EXPECT_EQ(alone.memory(), alone.first_rank());
  config.ranks = 4;
  const ResourceEstimate shared = EstimateResources(config);
  // 16 sequences: four for each. Weights, their gradients, and x and y.
  const int64_t batch = 4 * kContext * 2 * kModel * int64_t{sizeof(float)};
  EXPECT_LT(shared.step, alone.step);
  const int64_t more = shared.other_ranks - 3 * shared.process;
  EXPECT_GT(more, 3 * (2 * shared.weights + shared.step + batch));
  EXPECT_LT(more, 3 * (2 * shared.weights + shared.step + 1.01 * batch));
  EXPECT_EQ(shared.memory(), shared.first_rank() + shared.other_ranks);
}

// Runs in a process of its own, started by the next test: the peak of a process is its own.
TEST(ResourceEstimateTest, DISABLED_MeasuredGrowth) {
  ReturnFreedBlocks();
  const SyntheticSet set = LargerSet();
  const TrainConfig config = LargerConfig(set);
  const ScratchFolder scratch;
  FakeHost host(set, 0, scratch.path());
  // The code of libtorch that training calls into memory is the process's, not the run's.
  const SyntheticSet small = MakeSyntheticSet(160);
  FakeHost first(small, 0, scratch.Path("first"));
  ASSERT_TRUE(RunTraining(SyntheticConfig(small), first, {}).ok());
  const MemoryUse before = *ReadMemoryUse();
  ASSERT_TRUE(RunTraining(config, host, {}).ok());
  std::printf("GROWTH %lld\n", static_cast<long long>(ReadMemoryUse()->peak - before.resident));
}

TEST(ResourceEstimateTest, MemoryAgreesWithWhatAProcessTakes) {
  std::FILE* child = ::popen(
      "exec /proc/$PPID/exe --gtest_also_run_disabled_tests "
      "--gtest_filter=ResourceEstimateTest.DISABLED_MeasuredGrowth",
      "r");
  ASSERT_NE(child, nullptr);
  std::string output;
  for (int c = std::fgetc(child); c != EOF; c = std::fgetc(child)) {
    output += static_cast<char>(c);
  }
  ASSERT_EQ(::pclose(child), 0) << output;
  const size_t at = output.find("GROWTH ");
  ASSERT_NE(at, std::string::npos) << output;
  const double growth = std::stod(output.substr(at + 7));
  // A source in memory reads nothing ahead, and the libraries are there before.
  ResourceEstimate estimate = EstimateResources(LargerConfig(LargerSet()));
  estimate.process = 0;
  estimate.read_ahead = 0;
  EXPECT_NEAR(static_cast<double>(estimate.memory()) / growth, 1, 0.15)
      << MemoryText(estimate) << "; took " << BytesText(static_cast<int64_t>(growth));
}

}  // namespace
}  // namespace lorsa::trainer

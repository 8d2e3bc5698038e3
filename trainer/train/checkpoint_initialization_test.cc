// Runs that start from the weights of a checkpoint.
#include "trainer/train/checkpoint_initialization.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/scratch_folder.h"
#include "trainer/lorsa/reference_lorsa.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/testing/fake_host.h"
#include "trainer/train/training_run.h"
#include "trainer/train/weight_average.h"

namespace lorsa::trainer {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// The other run has 20 steps and publishes averaged weights.
class CheckpointInitializationTest : public testing::Test {
 protected:
  CheckpointInitializationTest() {
    config_.ema_fraction = 0.2;
    FakeHost host(set_, config_.seed, scratch_.Path("other"));
    EXPECT_TRUE(RunTraining(config_, host, {}).ok());
    checkpoint_ = host.CheckpointFolder(20);
    fvu_ = host.Points(MetricKind::kEvaluation).back().values.at("fvu");
    config_.initialization = Initialization::kCheckpoint;
  }

  absl::StatusOr<RunOutcome> Run(FakeHost& host) {
    return RunTraining(config_, host, {}, {.initial_checkpoint = checkpoint_});
  }
  FakeHost NewHost() { return FakeHost(set_, config_.seed, scratch_.Path("new")); }
  // FVU before the first step.
  double FirstFvu() {
    FakeHost host = NewHost();
    const auto outcome = Run(host);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    const std::vector<MetricPoint> evaluations = host.Points(MetricKind::kEvaluation);
    return evaluations.empty() ? -1 : evaluations.front().values.at("fvu");
  }
  CheckpointWeights Weights() { return ReadCheckpointWeights(fs_, checkpoint_, at::kCPU).value(); }

  const ScratchFolder scratch_;
  PosixFileSystem fs_;
  SyntheticSet set_ = MakeSyntheticSet(512);
  TrainConfig config_ = SyntheticConfig(set_);
  std::string checkpoint_;
  double fvu_ = 0;
};

TEST_F(CheckpointInitializationTest, StartsWhereTheOtherRunEndedWithAFreshOptimizer) {
  EXPECT_EQ(FirstFvu(), fvu_);
  const std::string first = scratch_.Path("new") + "/checkpoints/" + CheckpointFolderName(0);
  const auto read = ReadCheckpoint(fs_, first, at::kCPU);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->state.counts.step, 0);
  EXPECT_EQ(read->state.counts.fvu, fvu_);
  for (const ParameterSpec& spec : ParameterSpecs(config_.lorsa)) {
    EXPECT_TRUE((Weights().parameters.*spec.member).equal(read->state.parameters.*spec.member))
        << spec.name;
    EXPECT_EQ((read->state.adam.variance.*spec.member).abs().sum().item<double>(), 0) << spec.name;
  }
}

TEST_F(CheckpointInitializationTest, SeedBatchAndRatesAreFree) {
  config_.seed = 9;
  config_.sequences_per_step = 8;
  config_.learning_rate = 1e-4;
  config_.ema_fraction = 0;
  EXPECT_NEAR(FirstFvu(), fvu_, 1e-12);  // Sums are made in other batches.
}

// The mean norms of a set decide in which units a run trains.
TEST_F(CheckpointInitializationTest, ScalesOfAnotherSetChangeNoReconstruction) {
  set_.manifest.mean_input_norm *= 3.7;
  set_.manifest.mean_output_norm /= 2.3;
  config_.set = set_.manifest;
  EXPECT_NEAR(FirstFvu(), fvu_, 1e-5 * fvu_);
}

TEST_F(CheckpointInitializationTest, SelectionMayBeAnother) {
  config_.lorsa.top_k = 1;
  const double one_head = FirstFvu();
  EXPECT_GT(one_head, fvu_);
  config_.lorsa.selection = Selection::kSigned;
  EXPECT_NE(FirstFvu(), one_head);
}

TEST_F(CheckpointInitializationTest, AFixedDecoderNormChangesNoReconstruction) {
  config_.decoder_norm = 1;
  EXPECT_NEAR(FirstFvu(), fvu_, 1e-5 * fvu_);
}

TEST_F(CheckpointInitializationTest, AStateToGoOnFromIsNotNeeded) {
  for (const char* name : {"state.json", "state.safetensors"}) {
    std::filesystem::remove(checkpoint_ + "/" + name);
  }
  const std::string path = checkpoint_ + "/manifest.json";
  nlohmann::json manifest = nlohmann::json::parse(ReadFile(fs_, path, 1 << 20).value());
  manifest["files"].erase("state.json");
  manifest["files"].erase("state.safetensors");
  std::ofstream(path) << manifest.dump();
  EXPECT_EQ(FirstFvu(), fvu_);
  EXPECT_TRUE(absl::IsDataLoss(ReadCheckpoint(fs_, checkpoint_, at::kCPU).status()));
}

TEST_F(CheckpointInitializationTest, AnotherLorsaIsRefused) {
  const TrainConfig config = config_;
  const std::vector<std::function<void(TrainConfig&)>> changes = {
      [](TrainConfig& c) { c.lorsa.qk_norm = store::QkNorm{.epsilon = 1e-6}; },
      [](TrainConfig& c) { c.lorsa.rope.reset(); },
      [](TrainConfig& c) { c.lorsa.rope->base *= 2; },
      [](TrainConfig& c) { c.lorsa.attn_scale *= 2; },
      [](TrainConfig& c) { c.lorsa.n_ov_heads *= 2; },
      [](TrainConfig& c) { c.lorsa.decoder_bias = false; },
      [](TrainConfig& c) { c.set.hook_convention = "another"; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    config_ = config;
    changes[i](config_);
    FakeHost host = NewHost();
    const absl::Status status = Run(host).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << i << status;
    EXPECT_THAT(host.published, IsEmpty());
  }
}

TEST_F(CheckpointInitializationTest, DamageAndAbsenceAreNamed) {
  std::ofstream(checkpoint_ + "/lorsa.safetensors", std::ios::app) << "x";
  FakeHost host = NewHost();
  const absl::Status damaged = Run(host).status();
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("lorsa.safetensors"));
  checkpoint_.clear();
  EXPECT_TRUE(absl::IsFailedPrecondition(Run(host).status()));
}

TEST_F(CheckpointInitializationTest, FoldingTheScalesChangesNoReconstruction) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{4});
  const at::Tensor x = at::randn({2, 6, 8}, generator);
  const CheckpointWeights weights = Weights();
  for (const Selection selection : {Selection::kRelu, Selection::kSigned}) {
    CheckpointConfig config = weights.config;
    config.lorsa.selection = selection;
    ReferenceLorsa model(config.lorsa);
    const at::Tensor expected =
        model.Forward(weights.parameters, x * config.input_scale).reconstruction /
        config.output_scale;
    LorsaParameters folded = CloneParameters(config.lorsa, weights.parameters);
    Rescale(1, 1, config, folded);
    EXPECT_EQ(config.input_scale, 1);
    EXPECT_EQ(config.output_scale, 1);
    const at::Tensor actual = model.Forward(folded, x).reconstruction;
    EXPECT_LE(((actual - expected).abs().max() / expected.abs().max()).item<double>(), 1e-5);
  }
}

}  // namespace
}  // namespace lorsa::trainer

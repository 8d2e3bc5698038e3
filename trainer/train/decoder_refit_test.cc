#include "trainer/train/decoder_refit.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "activation_store/sequence_order.h"
#include "base/scratch_folder.h"
#include "trainer/lorsa/reference_lorsa.h"
#include "trainer/train/initialization.h"
#include "trainer/train/testing/fake_host.h"
#include "trainer/train/training_sample.h"
#include "trainer/train/weight_average.h"

namespace lorsa::trainer {
namespace {

const auto kNeverStop = [] { return false; };

class DecoderRefitTest : public testing::Test {
 protected:
  void SetUp() override {
    auto parameters =
        InitializeParameters(config_, host_, /*initial_checkpoint=*/"", kernel_, at::kCPU);
    ASSERT_TRUE(parameters.ok()) << parameters.status();
    parameters_ = *parameters;
    config_.refit_tokens = 80 * config_.set.context;
  }

  absl::StatusOr<DecoderRefit> Refit(int64_t cursor = 80) {
    return RefitDecoder(config_, host_, kernel_, cursor, at::kCPU, kNeverStop, parameters_);
  }

  SyntheticSet set_ = MakeSyntheticSet(256);
  TrainConfig config_ = SyntheticConfig(set_);
  const ScratchFolder scratch_;
  FakeHost host_{set_, config_.seed, scratch_.Path("host")};
  ReferenceLorsa kernel_{config_.lorsa};
  LorsaParameters parameters_;
};

// Against the dense ridge regression on what the kernel keeps.
TEST_F(DecoderRefitTest, TheChangeSolvesTheDenseRidgeRegression) {
  const auto sample = ReadTrainingSample(config_, host_, 0, 240, at::kCPU);
  ASSERT_TRUE(sample.ok()) << sample.status();
  NormalEquations equations(config_.lorsa);
  std::vector<at::Tensor> columns, errors;
  for (const LoadedBatch& loaded : *sample) {
    const ForwardResult forward = kernel_.Forward(parameters_, loaded.batch.x);
    const at::Tensor error_Td = (loaded.batch.y - forward.reconstruction).flatten(0, 1);
    equations.Add(forward.activations, error_Td, loaded.batch.mask.flatten());
    const at::Tensor z_TH = at::zeros({error_Td.size(0), 16})
                                .scatter_(1, forward.activations.heads, forward.activations.values);
    const at::Tensor rows = loaded.batch.mask.flatten().nonzero().flatten();
    columns.push_back(at::cat({z_TH, at::ones({z_TH.size(0), 1})}, 1).index_select(0, rows));
    errors.push_back(error_Td.index_select(0, rows));
  }
  const at::Tensor z_NC = at::cat(columns).to(at::kDouble), e_Nd = at::cat(errors).to(at::kDouble);
  at::Tensor gram = z_NC.t().matmul(z_NC);
  const double ridge = 0.3 * gram.diagonal().narrow(0, 0, 16).mean().item<double>();
  gram.diagonal().narrow(0, 0, 16).add_(ridge);
  const at::Tensor expected = at::linalg_solve(gram, z_NC.t().matmul(e_Nd));
  const auto delta = std::move(equations).Solve(0.3);
  ASSERT_TRUE(delta.ok()) << delta.status();
  EXPECT_TRUE(at::allclose(*delta, expected, 1e-8, 1e-10));
}

TEST_F(DecoderRefitTest, TheNumberOfThreadsChangesNoBit) {
  const auto sample = ReadTrainingSample(config_, host_, 0, 240, at::kCPU);
  ASSERT_TRUE(sample.ok()) << sample.status();
  std::vector<at::Tensor> deltas;
  const int threads = at::get_num_threads();
  for (const int count : {1, 2}) {
    at::set_num_threads(count);
    NormalEquations equations(config_.lorsa);
    for (const LoadedBatch& loaded : *sample) {
      const ForwardResult forward = kernel_.Forward(parameters_, loaded.batch.x);
      equations.Add(forward.activations, (loaded.batch.y - forward.reconstruction).flatten(0, 1),
                    loaded.batch.mask.flatten());
    }
    deltas.push_back(*std::move(equations).Solve(0.1));
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(deltas[0].equal(deltas[1]));
}

TEST_F(DecoderRefitTest, LowersTheErrorAndTouchesTheDecoderAlone) {
  const LorsaParameters before = CloneParameters(config_.lorsa, parameters_);
  const auto refit = Refit();
  ASSERT_TRUE(refit.ok()) << refit.status();
  EXPECT_GT(refit->length, 0);
  EXPECT_LT(refit->error_after, refit->error_before);
  EXPECT_FALSE(refit->parameters.w_o.equal(before.w_o));
  EXPECT_FALSE(refit->parameters.b_d.equal(before.b_d));
  EXPECT_TRUE(refit->parameters.w_v.equal(before.w_v));
  EXPECT_TRUE(refit->parameters.b_v.equal(before.b_v));
  EXPECT_TRUE(refit->parameters.w_q.equal(before.w_q));
  EXPECT_TRUE(parameters_.w_o.equal(before.w_o));
}

TEST_F(DecoderRefitTest, WithADecoderNormTheRowsKeepIt) {
  config_.decoder_norm = 3;
  const auto refit = Refit();
  ASSERT_TRUE(refit.ok()) << refit.status();
  ASSERT_GT(refit->length, 0);
  EXPECT_TRUE(at::allclose(refit->parameters.w_o.norm(2, {1}), at::full({16}, 3.), 1e-5));
}

// The sequences that decide are others than those fitted to: here the two contradict each other.
TEST_F(DecoderRefitTest, WhatDoesNotHelpWhereItWasNotFittedIsNotTaken) {
  const store::SequenceOrder order(set_.manifest.training_sequences(), config_.seed);
  const std::string zeros(set_.sequences[0].mhsa_output.size(), 0);
  for (int64_t i = 0; i < 70; ++i) set_.sequences[order.At(i)].mhsa_output = zeros;
  config_.refit_ridge = 1e-9;
  const auto refit = Refit();
  ASSERT_TRUE(refit.ok()) << refit.status();
  EXPECT_EQ(refit->length, 0);
  EXPECT_EQ(refit->error_after, refit->error_before);
  EXPECT_TRUE(refit->parameters.w_o.equal(parameters_.w_o));
}

// Of 128 training sequences, numbers 12 to 139 of the order make the window: 128 to 139 are in it
// twice, and decide. Were they fitted too, an outlier's error would fall and look like success:
// whatever their targets are, the fit is the same.
TEST_F(DecoderRefitTest, SequencesThatAnEpochsEndBringsTwiceAreNotFittedWhereTheyDecide) {
  config_.refit_tokens = 128 * config_.set.context;
  const auto direction = [&] {
    const auto refit = Refit(/*cursor=*/140);
    EXPECT_TRUE(refit.ok() && refit->length > 0);
    return (refit->parameters.w_o - parameters_.w_o) / refit->length;
  };
  const at::Tensor expected = direction();
  const store::SequenceOrder order(128, config_.seed);
  for (int64_t number = 128; number < 140; ++number) {
    set_ = MakeSyntheticSet(256);
    MakeOutlier(set_, order.At(number));
    EXPECT_TRUE(at::allclose(direction(), expected, 1e-4, 1e-6)) << number;
  }
}

TEST_F(DecoderRefitTest, ReadsTheLastTokensBeforeTheCursorAndNoOthers) {
  config_.refit_tokens = 40 * config_.set.context;  // sequences 40 to 79 of the order
  const store::SequenceOrder order(set_.manifest.training_sequences(), config_.seed);
  const auto status_without = [&](int64_t number) {
    std::string& input = set_.sequences[order.At(number)].mhsa_input;
    const std::string whole = input;
    input.resize(1);  // damaged: whoever reads it says so
    const absl::Status status = Refit().status();
    input = whole;
    return status;
  };
  EXPECT_TRUE(status_without(39).ok());
  EXPECT_TRUE(status_without(80).ok());
  EXPECT_TRUE(absl::IsDataLoss(status_without(40)));
  EXPECT_TRUE(absl::IsDataLoss(status_without(79)));
}

TEST_F(DecoderRefitTest, AStopLeavesTheWeightsAsTheyWere) {
  const LorsaParameters before = CloneParameters(config_.lorsa, parameters_);
  int polls = 0;
  const auto refit = RefitDecoder(
      config_, host_, kernel_, 80, at::kCPU, [&] { return ++polls > 18; }, parameters_);
  EXPECT_TRUE(absl::IsCancelled(refit.status()));
  EXPECT_TRUE(parameters_.w_o.equal(before.w_o));
}

}  // namespace
}  // namespace lorsa::trainer

// Ranks against one kernel alone, which is what they must be the same as.
#include "trainer/parallel/ranked_lorsa.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>

#include "trainer/lorsa/fixtures.h"
#include "trainer/lorsa/reference_lorsa.h"
#include "trainer/parallel/testing/thread_ranks.h"

namespace lorsa::trainer {
namespace {

constexpr double kTolerance = 1e-5;  // max|Δ| relative to max|reference|, per tensor

// Configuration, weights and a batch of a given number of sequences.
struct Problem {
  LorsaConfig config;
  LorsaParameters parameters;
  Batch batch;
  StepOptions options;
};

Problem MakeProblem(uint64_t seed, int64_t sequences, bool aux) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  Problem out;
  out.config = {.d_model = 12,
                .n_ov_heads = 32,
                .n_qk_heads = 8,
                .d_qk = 4,
                .top_k = 5,
                .selection = seed % 2 == 0 ? Selection::kRelu : Selection::kSigned,
                .decoder_bias = seed % 3 != 0,
                .attn_scale = 2,
                .rope = store::Rope{.base = 100, .rotary_dim = 4}};
  if (seed % 5 == 0) out.config.qk_norm = store::QkNorm{.epsilon = 1e-6};
  for (const ParameterSpec& spec : ParameterSpecs(out.config)) {
    out.parameters.*spec.member = at::randn(spec.shape, generator) / 2;
  }
  const int64_t positions = 7;
  out.batch = {.x = at::randn({sequences, positions, 12}, generator),
               .y = at::randn({sequences, positions, 12}, generator),
               .mask = at::rand({sequences, positions}, generator) > 0.3};
  out.options = WholeStep(out.config, out.batch);
  out.options.top_k = 4;  // not the configuration's
  if (aux) {
    out.options.aux = AuxLoss{.dead = at::arange(32) % 3 == 0, .top_k = 3, .coefficient = 1.0 / 32};
  }
  return out;
}

using UseKernel = std::function<void(LorsaKernel&)>;

// Runs `use` on rank 0 of `ranks`; the other ranks serve.
std::optional<std::string> WithRanks(
    const LorsaConfig& config, int ranks, const UseKernel& use,
    const std::function<std::unique_ptr<LorsaKernel>(int rank)>& make = nullptr,
    const std::function<void(int, std::string&)>& alter = nullptr) {
  return RunThreadRanks(
      ranks,
      [&](Communicator& communicator) {
        std::unique_ptr<LorsaKernel> kernel =
            make ? make(communicator.rank()) : std::make_unique<ReferenceLorsa>(config);
        if (communicator.rank() != 0) return ServeRanks(communicator, *kernel);
        RankedLorsa ranked(communicator, std::move(kernel));
        use(ranked);
      },
      alter);
}

StepResult StepOf(const Problem& problem, int ranks) {
  StepResult out;
  EXPECT_EQ(WithRanks(problem.config, ranks,
                      [&](LorsaKernel& kernel) {
                        out = kernel.ForwardBackward(problem.parameters, problem.batch,
                                                     problem.options);
                      }),
            std::nullopt);
  return out;
}

void ExpectSame(const LorsaConfig& config, const StepResult& actual, const StepResult& expected) {
  EXPECT_NEAR(actual.loss, expected.loss, kTolerance * expected.loss);
  EXPECT_NEAR(actual.aux_loss, expected.aux_loss, kTolerance * expected.aux_loss);
  EXPECT_EQ(actual.targets, expected.targets);
  EXPECT_TRUE(actual.firings.equal(expected.firings));
  EXPECT_NEAR(actual.activation_sum, expected.activation_sum, kTolerance * expected.activation_sum);
  EXPECT_NEAR(actual.activation_max, expected.activation_max, kTolerance * expected.activation_max);
  for (const ParameterSpec& spec : ParameterSpecs(config)) {
    EXPECT_LE(RelativeError(actual.gradients.*spec.member, expected.gradients.*spec.member),
              kTolerance)
        << spec.name;
  }
}

TEST(RankedLorsaTest, AStepIsThatOfOneKernelHoweverItIsShared) {
  uint64_t seed = 1;
  for (const int ranks : {2, 3, 5}) {
    for (const int64_t sequences : {1, 2, 7, 9}) {
      for (const bool aux : {false, true}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << sequences << " sequences, seed "
                                        << seed << (aux ? ", aux" : ""));
        const Problem problem = MakeProblem(seed++, sequences, aux);
        ReferenceLorsa alone(problem.config);
        ExpectSame(problem.config, StepOf(problem, ranks),
                   alone.ForwardBackward(problem.parameters, problem.batch, problem.options));
      }
    }
  }
}

TEST(RankedLorsaTest, SharesWithoutTargetsAddNothing) {
  for (const int64_t first_with_targets : {0, 2, 5}) {
    Problem problem = MakeProblem(3, 6, /*aux=*/true);
    problem.batch.mask.fill_(false);
    problem.batch.mask[first_with_targets].fill_(true);
    problem.options.loss_targets = 7;
    ReferenceLorsa alone(problem.config);
    ExpectSame(problem.config, StepOf(problem, 3),
               alone.ForwardBackward(problem.parameters, problem.batch, problem.options));
  }
}

TEST(RankedLorsaTest, TheSameStepTwiceIsTheSameToTheBit) {
  const Problem problem = MakeProblem(2, 7, /*aux=*/true);
  const StepResult first = StepOf(problem, 3), second = StepOf(problem, 3);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.aux_loss, second.aux_loss);
  EXPECT_EQ(first.activation_sum, second.activation_sum);
  for (const ParameterSpec& spec : ParameterSpecs(problem.config)) {
    EXPECT_TRUE((first.gradients.*spec.member).equal(second.gradients.*spec.member)) << spec.name;
  }
}

TEST(RankedLorsaTest, ForwardIsThatOfOneKernel) {
  for (const int64_t sequences : {1, 5, 8}) {
    const Problem problem = MakeProblem(4, sequences, /*aux=*/false);
    const ForwardResult expected =
        ReferenceLorsa(problem.config).Forward(problem.parameters, problem.batch.x);
    ForwardResult actual;
    WithRanks(problem.config, 3, [&](LorsaKernel& kernel) {
      actual = kernel.Forward(problem.parameters, problem.batch.x);
    });
    EXPECT_LE(RelativeError(actual.reconstruction, expected.reconstruction), kTolerance);
    EXPECT_TRUE(actual.activations.heads.equal(expected.activations.heads));
    EXPECT_LE(RelativeError(actual.activations.values, expected.activations.values), kTolerance);
  }
}

// The optimiser changes the weights in place between steps.
TEST(RankedLorsaTest, EveryTaskUsesTheWeightsOfItsTime) {
  Problem problem = MakeProblem(8, 6, /*aux=*/false);
  ReferenceLorsa alone(problem.config);
  WithRanks(problem.config, 2, [&](LorsaKernel& kernel) {
    for (int step = 0; step < 3; ++step) {
      kernel.Forward(problem.parameters, problem.batch.x);
      const StepResult expected =
          alone.ForwardBackward(problem.parameters, problem.batch, problem.options);
      ExpectSame(problem.config,
                 kernel.ForwardBackward(problem.parameters, problem.batch, problem.options),
                 expected);
      for (const ParameterSpec& spec : ParameterSpecs(problem.config)) {
        (problem.parameters.*spec.member).sub_(expected.gradients.*spec.member, 0.01);
      }
    }
  });
}

TEST(RankedLorsaTest, WeightsAreSentOnceForManyTasks) {
  const Problem problem = MakeProblem(8, 4, /*aux=*/false);
  int broadcasts = 0;
  WithRanks(
      problem.config, 2,
      [&](LorsaKernel& kernel) {
        for (int i = 0; i < 3; ++i) kernel.Forward(problem.parameters, problem.batch.x);
      },
      nullptr, [&](int, std::string&) { ++broadcasts; });
  EXPECT_EQ(broadcasts, ParameterSpecs(problem.config).size());
}

TEST(RankedLorsaTest, WeightsDamagedOnTheWayEndEveryRank) {
  const Problem problem = MakeProblem(8, 4, /*aux=*/false);
  const auto aborted = WithRanks(
      problem.config, 3,
      [&](LorsaKernel& kernel) {
        kernel.ForwardBackward(problem.parameters, problem.batch, problem.options);
        ADD_FAILURE();
      },
      nullptr, [](int to, std::string& bytes) { bytes.back() ^= to == 2 ? 1 : 0; });
  EXPECT_THAT(aborted.value_or(""), testing::HasSubstr("not those of rank 0"));
}

// Fails at the first step; then goes on.
class FailsOnce final : public LorsaKernel {
 public:
  FailsOnce(const LorsaConfig& config, bool fails) : inner_(config), fails_(fails) {}
  const LorsaConfig& config() const override { return inner_.config(); }
  StepResult ForwardBackward(const LorsaParameters& parameters, const Batch& batch,
                             const StepOptions& options) override {
    TORCH_CHECK(!std::exchange(fails_, false), "not enough memory: you tried to allocate 5");
    return inner_.ForwardBackward(parameters, batch, options);
  }
  ForwardResult Forward(const LorsaParameters& parameters, const at::Tensor& x) override {
    return inner_.Forward(parameters, x);
  }
  Intermediates Inspect(const LorsaParameters& parameters, const at::Tensor& x) override {
    return inner_.Inspect(parameters, x);
  }

 private:
  ReferenceLorsa inner_;
  bool fails_;
};

TEST(RankedLorsaTest, AFailureOfAnyRankIsThrownAndTheNextStepIsRight) {
  const Problem problem = MakeProblem(7, 6, /*aux=*/false);
  const StepResult expected = StepOf(problem, 3);
  for (const std::set<int>& failing : {std::set{0}, std::set{2}, std::set{0, 1, 2}}) {
    const auto aborted = WithRanks(
        problem.config, 3,
        [&](LorsaKernel& kernel) {
          const auto step = [&] {
            return kernel.ForwardBackward(problem.parameters, problem.batch, problem.options);
          };
          std::string message;
          try {
            step();
          } catch (const c10::Error& error) {
            message = error.what_without_backtrace();
          }
          EXPECT_THAT(message, testing::HasSubstr("not enough memory"));
          EXPECT_EQ(message.find("rank 2") != std::string::npos, !failing.contains(0)) << message;
          ExpectSame(problem.config, step(), expected);
        },
        [&](int rank) {
          return std::make_unique<FailsOnce>(problem.config, failing.contains(rank));
        });
    EXPECT_EQ(aborted, std::nullopt);
  }
}

// Else the run would go on with a step that it must not apply.
TEST(RankedLorsaTest, ANanOnAnyRankIsSeen) {
  for (const int64_t sequence : {0, 5}) {
    const Problem problem = MakeProblem(9, 6, /*aux=*/false);
    problem.batch.x[sequence].fill_(std::numeric_limits<double>::quiet_NaN());
    problem.batch.mask.fill_(true);
    EXPECT_FALSE(std::isfinite(StepOf(problem, 3).loss));
  }
}

TEST(ShareTest, SharesAreInOrderEvenAndWhole) {
  for (const int64_t count : {0, 1, 4, 7, 64}) {
    for (const int ranks : {1, 2, 5, 64}) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Share share = ShareOf(count, rank, ranks);
        EXPECT_EQ(share.begin, next);
        EXPECT_GE(share.size(), count / ranks);
        EXPECT_LE(share.size(), count / ranks + 1);
        next = share.end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

}  // namespace
}  // namespace lorsa::trainer

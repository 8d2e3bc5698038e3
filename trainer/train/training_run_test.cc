#include "trainer/train/training_run.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <fstream>
#include <random>
#include <set>
#include <stdexcept>

#include "activation_store/sequence_order.h"
#include "base/scratch_folder.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/testing/fake_host.h"
#include "trainer/train/testing/poisoned_kernel.h"

namespace lorsa::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Requests `request` at poll number `at` and from then on.
std::function<StopRequest()> StopAtPoll(int64_t at, StopRequest request) {
  return [at, request, polls = int64_t{0}]() mutable {
    return ++polls >= at ? request : StopRequest::kNone;
  };
}

class TrainingRunTest : public testing::Test {
 protected:
  // The host's folder is emptied.
  FakeHost NewHost(const std::string& name) {
    return FakeHost(set_, config_.seed, scratch_.Path(name));
  }

  std::string FileOf(const FakeHost& host, int64_t step, const std::string& name) {
    auto contents = ReadFile(fs_, JoinPath(host.CheckpointFolder(step), name), 1 << 20);
    EXPECT_TRUE(contents.ok()) << contents.status();
    return contents.value_or("");
  }

  void ExpectSameCheckpoint(const FakeHost& a, const FakeHost& b, int64_t step) {
    for (const char* file :
         {"lorsa.safetensors", "state.safetensors", "config.json", "state.json"}) {
      EXPECT_EQ(FileOf(a, step, file), FileOf(b, step, file)) << "step " << step << " " << file;
    }
  }

  // A run that is paused at random moments and resumed ends with the bits of one that is not.
  void ExpectPausesChangeNoBit();

  const ScratchFolder scratch_;
  PosixFileSystem fs_;
  SyntheticSet set_ = MakeSyntheticSet(160);
  TrainConfig config_ = SyntheticConfig(set_);
};

TEST_F(TrainingRunTest, ReportsEvaluatesAndCheckpointsOnSchedule) {
  FakeHost host = NewHost("a");
  const auto outcome = RunTraining(config_, host, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->kind, RunOutcome::Kind::kSucceeded);
  EXPECT_EQ(outcome->step, 20);
  EXPECT_EQ(outcome->tokens, config_.total_tokens);

  std::vector<int64_t> evaluated, checkpointed;
  for (const MetricPoint& point : host.Points(MetricKind::kEvaluation)) {
    evaluated.push_back(point.step);
  }
  for (const StagedCheckpoint& checkpoint : host.published) {
    checkpointed.push_back(checkpoint.step);
    EXPECT_TRUE(checkpoint.scheduled);
    EXPECT_EQ(checkpoint.fvu.has_value(), checkpoint.step % 10 == 0);
    EXPECT_EQ(checkpoint.tokens, checkpoint.step * config_.tokens_per_step());
  }
  EXPECT_THAT(evaluated, ElementsAre(0, 10, 20));
  EXPECT_THAT(checkpointed, ElementsAre(0, 5, 10, 15, 20));
  EXPECT_EQ(host.Points(MetricKind::kTraining).size(), 20);
  EXPECT_EQ(host.progress.back().step, 20);
  EXPECT_EQ(host.progress.back().total_tokens, config_.total_tokens);
}

TEST_F(TrainingRunTest, TrainingLowersTheHeldOutError) {
  config_.total_tokens *= 10;
  FakeHost host = NewHost("a");
  ASSERT_TRUE(RunTraining(config_, host, {}).ok());
  const auto points = host.Points(MetricKind::kEvaluation);
  EXPECT_LT(points.back().values.at("fvu"), 0.7 * points.front().values.at("fvu"));
}

TEST_F(TrainingRunTest, EveryInitialisationTrains) {
  for (const Initialization initialization :
       {Initialization::kRandom, Initialization::kFromAttention, Initialization::kDataSampled}) {
    config_.initialization = initialization;
    FakeHost host = NewHost("a");
    const auto outcome = RunTraining(config_, host, {});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const auto points = host.Points(MetricKind::kEvaluation);
    EXPECT_LT(points.back().values.at("fvu"), points.front().values.at("fvu"));
  }
}

// Every lever of the recipe at once.
void PullAllLevers(TrainConfig& config) {
  config.dead_after_fraction = 0.1;  // 2 steps
  config.aux_coefficient = 1.0 / 32;
  config.aux_top_k = 4;
  config.resample_interval_fraction = 0.15;  // before steps 3, 6, …
  config.resample_until_fraction = 0.8;
  config.ema_fraction = 0.3;
  config.refit_tokens = 40 * config.set.context;
  config.schedule = LearningRateSchedule::kCosine;
  config.w_v_learning_rate_factor = 0.7;
  config.bias_learning_rate_factor = 0.5;
  config.top_k_warmup_fraction = 0.5;
  config.initial_top_k = 8;
  config.top_k_warmup = TopKWarmup::kExponential;
  config.decoder_norm = 1;
  config.max_gradient_norm = 5;
  // Many heads for few places: some die.
  config.lorsa.n_ov_heads = 64;
  config.lorsa.top_k = 2;
}

// Killed at any step: a later run that has only the checkpoints before it ends with the same bits.
TEST_F(TrainingRunTest, ResumedFromAnyCheckpointEndsWithTheSameBits) {
  FakeHost whole = NewHost("whole");
  ASSERT_TRUE(RunTraining(config_, whole, {}).ok());
  for (const int64_t step : {0, 5, 15}) {
    FakeHost resumed = NewHost("resumed");
    const auto outcome = RunTraining(config_, resumed, {whole.CheckpointFolder(step)});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(resumed.published.front().step, step + 5);
    for (int64_t later = step + 5; later <= 20; later += 5) {
      ExpectSameCheckpoint(whole, resumed, later);
    }
  }
}

TEST_F(TrainingRunTest, WithAllLeversResumedFromAnyCheckpointEndsWithTheSameBits) {
  PullAllLevers(config_);
  FakeHost whole = NewHost("whole");
  ASSERT_TRUE(RunTraining(config_, whole, {}).ok());
  double resampled = 0, aux_loss = 0;
  for (const MetricPoint& point : whole.Points(MetricKind::kTraining)) {
    resampled += point.values.at("resampled_heads");
    aux_loss += point.values.at("aux_loss");
  }
  EXPECT_GT(resampled, 0);
  EXPECT_GT(aux_loss, 0);
  for (const int64_t step : {0, 5, 10, 15}) {
    FakeHost resumed = NewHost("resumed");
    const auto outcome = RunTraining(config_, resumed, {whole.CheckpointFolder(step)});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    for (int64_t later = step + 5; later <= 20; later += 5) {
      ExpectSameCheckpoint(whole, resumed, later);
    }
  }
}

// The average of rows of one norm is shorter than the rows; what is published was.
TEST_F(TrainingRunTest, WithAllLeversEachPublishedDecoderHasItsNorm) {
  PullAllLevers(config_);
  config_.decoder_norm = 2;
  for (const int64_t refit_tokens : {int64_t{0}, config_.refit_tokens}) {
    config_.refit_tokens = refit_tokens;
    FakeHost host = NewHost("host");
    ASSERT_TRUE(RunTraining(config_, host, {}).ok());
    for (const std::string& folder : host.CheckpointFolders()) {
      const auto weights = ReadCheckpointWeights(fs_, folder, at::kCPU);
      ASSERT_TRUE(weights.ok()) << weights.status();
      const at::Tensor norms = weights->parameters.w_o.norm(2, {1});
      EXPECT_TRUE(at::allclose(norms, at::full_like(norms, 2), 1e-5)) << folder;
    }
  }
}

TEST_F(TrainingRunTest, WithAllLeversPausedAtRandomMomentsEndsWithTheSameBits) {
  PullAllLevers(config_);
  ExpectPausesChangeNoBit();
}

TEST_F(TrainingRunTest, WithAllLeversInBf16PausedAtRandomMomentsEndsWithTheSameBits) {
  PullAllLevers(config_);
  config_.precision = Precision::kBf16;
  ExpectPausesChangeNoBit();
}

TEST_F(TrainingRunTest, TheAverageIsEvaluatedAndPublishedAndTheTrainedWeightsKept) {
  FakeHost plain = NewHost("plain");
  ASSERT_TRUE(RunTraining(config_, plain, {}).ok());
  config_.ema_fraction = 0.2;
  FakeHost host = NewHost("averaged");
  ASSERT_TRUE(RunTraining(config_, host, {}).ok());
  const auto without = ReadCheckpoint(fs_, plain.CheckpointFolder(20), at::kCPU);
  const auto with = ReadCheckpoint(fs_, host.CheckpointFolder(20), at::kCPU);
  ASSERT_TRUE(with.ok()) << with.status();
  ASSERT_TRUE(with->state.averaged.has_value());
  EXPECT_TRUE(with->state.parameters.w_v.equal(without->state.parameters.w_v));
  EXPECT_FALSE(with->state.averaged->w_v.equal(without->state.parameters.w_v));
  EXPECT_NE(*with->state.counts.fvu, *without->state.counts.fvu);
  // One is no checkpoint of the other.
  const auto outcome = RunTraining(config_, host, {plain.CheckpointFolder(10)});
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kFailedPrecondition) << outcome.status();
}

TEST_F(TrainingRunTest, TheRefitLowersTheHeldOutErrorOfTheLastCheckpointOnly) {
  config_.lorsa.top_k = 8;
  FakeHost plain = NewHost("plain");
  ASSERT_TRUE(RunTraining(config_, plain, {}).ok());
  config_.refit_tokens = config_.total_tokens;
  FakeHost host = NewHost("refitted");
  ASSERT_TRUE(RunTraining(config_, host, {}).ok());
  ExpectSameCheckpoint(plain, host, 15);
  EXPECT_LT(*host.published.back().fvu, *plain.published.back().fvu);
  const auto checkpoint = ReadCheckpoint(fs_, host.CheckpointFolder(20), at::kCPU);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(checkpoint->state.counts.refitted);
}

// 200 sequences, 72 of them for training, 80 consumed: numbers 72 to 79 of the order are in the
// refit's window a second time. They were fitted to and decided too, so the refit learnt an outlier
// by heart, which looked like success, and took the held-out FVU from 0.64 to 2.15.
TEST_F(TrainingRunTest, AnOutlierInTwoEpochsOfTheRefitRuinsNothing) {
  for (int64_t number = 72; number < 80; ++number) {
    set_ = MakeSyntheticSet(200);
    config_ = SyntheticConfig(set_);
    config_.refit_tokens = 72 * config_.set.context;
    MakeOutlier(set_, store::SequenceOrder(72, config_.seed).At(number));
    FakeHost host = NewHost("refitted");
    const auto outcome = RunTraining(config_, host, {});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    const auto last = host.Points(MetricKind::kEvaluation).back().values;
    EXPECT_LE(last.at("fvu"), last.at("fvu_before_refit")) << number;
    EXPECT_EQ(outcome->message.empty(), last.at("refit_length") > 0) << outcome->message;
  }
}

// The held-out targets are the opposite of what the training targets follow.
TEST_F(TrainingRunTest, ARefitThatRaisesTheHeldOutErrorIsRejectedAndSaysSo) {
  for (int64_t i = set_.manifest.training_sequences(); i < set_.manifest.sequences; ++i) {
    std::string& output = set_.sequences[i].mhsa_output;
    for (size_t byte = 3; byte < output.size(); byte += 4) output[byte] ^= '\x80';
  }
  config_.lorsa.top_k = 8;
  FakeHost plain = NewHost("plain");
  ASSERT_TRUE(RunTraining(config_, plain, {}).ok());
  config_.refit_tokens = config_.total_tokens;
  FakeHost host = NewHost("refitted");
  const auto outcome = RunTraining(config_, host, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->message, HasSubstr("rejected"));
  EXPECT_THAT(host.warnings, ElementsAre(HasSubstr("would change the held-out FVU from")));
  const auto last = host.Points(MetricKind::kEvaluation).back().values;
  EXPECT_EQ(last.at("refit_length"), 0);
  EXPECT_EQ(last.at("fvu"), last.at("fvu_before_refit"));
  EXPECT_EQ(FileOf(host, 20, "lorsa.safetensors"), FileOf(plain, 20, "lorsa.safetensors"));
}

TEST_F(TrainingRunTest, ARefitThatCannotBeMadeFailsNoRun) {
  config_.refit_tokens = config_.total_tokens;
  FakeHost host = NewHost("refitted");
  const auto break_refit = [&](const at::Tensor&) {
    if (host.progress.back().phase == "refitting") throw std::runtime_error("it is broken");
    return Poison::kNothing;
  };
  const auto outcome = RunTraining(config_, host, {}, {.decorate = Poisoned(break_refit)});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->kind, RunOutcome::Kind::kSucceeded);
  EXPECT_THAT(outcome->message, HasSubstr("was not possible, so they stay as trained: "));
  EXPECT_THAT(outcome->message, HasSubstr("it is broken"));
  EXPECT_THAT(host.warnings, ElementsAre(outcome->message));
  EXPECT_EQ(host.Points(MetricKind::kEvaluation).back().values.at("refit_length"), 0);
  EXPECT_EQ(host.published.back().step, 20);
}

TEST_F(TrainingRunTest, ResamplingLeavesFewerDeadHeads) {
  PullAllLevers(config_);
  config_.aux_coefficient = 0;
  config_.total_tokens *= 5;
  FakeHost host = NewHost("resampled");
  ASSERT_TRUE(RunTraining(config_, host, {}).ok());
  config_.resample_interval_fraction = 0;
  FakeHost plain = NewHost("plain");
  ASSERT_TRUE(RunTraining(config_, plain, {}).ok());
  const auto dead = [](const FakeHost& h) {
    return h.Points(MetricKind::kTraining).back().values.at("dead_fraction");
  };
  EXPECT_LT(dead(host), dead(plain));
}

TEST_F(TrainingRunTest, PausedAtRandomMomentsEndsWithTheSameBits) { ExpectPausesChangeNoBit(); }

void TrainingRunTest::ExpectPausesChangeNoBit() {
  FakeHost whole = NewHost("whole");
  ASSERT_TRUE(RunTraining(config_, whole, {}).ok());
  std::mt19937 random(5);
  FakeHost host = NewHost("paused");
  int pauses = 0;
  while (true) {
    // Polls happen once a step and once for each batch of an evaluation: 80 from the refit to the
    // last checkpoint.
    host.on_poll = StopAtPoll(1 + random() % 120, StopRequest::kPause);
    const auto outcome = RunTraining(config_, host, host.CheckpointFolders());
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    if (outcome->kind == RunOutcome::Kind::kSucceeded) break;
    ASSERT_EQ(outcome->kind, RunOutcome::Kind::kPaused);
    EXPECT_EQ(host.published.back().step, outcome->step);
    ASSERT_LT(++pauses, 100);
  }
  EXPECT_GT(pauses, 2);
  ExpectSameCheckpoint(whole, host, 20);
  // Each evaluation was made, and gave the same.
  std::map<int64_t, double> fvu, expected;
  for (const MetricPoint& p : host.Points(MetricKind::kEvaluation))
    fvu[p.step] = p.values.at("fvu");
  for (const MetricPoint& p : whole.Points(MetricKind::kEvaluation)) {
    expected[p.step] = p.values.at("fvu");
  }
  EXPECT_EQ(fvu, expected);
}

TEST_F(TrainingRunTest, APauseMakesAnExtraCheckpointAndACancelNone) {
  FakeHost host = NewHost("a");
  host.on_poll = [&] {
    return host.Points(MetricKind::kTraining).size() == 3 ? StopRequest::kDrain
                                                          : StopRequest::kNone;
  };
  const auto drained = RunTraining(config_, host, {});
  ASSERT_TRUE(drained.ok()) << drained.status();
  EXPECT_EQ(drained->kind, RunOutcome::Kind::kDrained);
  EXPECT_EQ(host.published.back().step, 3);
  EXPECT_FALSE(host.published.back().scheduled);

  host.on_poll = [] { return StopRequest::kCancel; };
  const auto cancelled = RunTraining(config_, host, host.CheckpointFolders());
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(cancelled->kind, RunOutcome::Kind::kCancelled);
  EXPECT_EQ(host.published.size(), 2);
}

TEST_F(TrainingRunTest, ADamagedNewestCheckpointGivesWayToTheOneBefore) {
  FakeHost whole = NewHost("whole");
  ASSERT_TRUE(RunTraining(config_, whole, {}).ok());
  // One bit of the newest weights flips.
  const std::string path = JoinPath(whole.CheckpointFolder(15), "lorsa.safetensors");
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get());
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(last ^ 1));
  file.close();

  FakeHost resumed = NewHost("resumed");
  const auto outcome =
      RunTraining(config_, resumed, {whole.CheckpointFolder(15), whole.CheckpointFolder(10)});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(resumed.warnings, ElementsAre(HasSubstr(path)));
  EXPECT_THAT(resumed.damaged, ElementsAre(15));
  EXPECT_EQ(resumed.published.front().step, 15);
  ExpectSameCheckpoint(whole, resumed, 20);
}

TEST_F(TrainingRunTest, ACheckpointOfAnotherConfigurationIsRefused) {
  FakeHost host = NewHost("a");
  ASSERT_TRUE(RunTraining(config_, host, {}).ok());
  config_.lorsa.top_k = 2;
  const auto outcome = RunTraining(config_, host, {host.CheckpointFolder(10)});
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kFailedPrecondition) << outcome.status();
}

TEST_F(TrainingRunTest, ACheckpointOfAnotherPrecisionIsRefused) {
  FakeHost host = NewHost("a");
  config_.precision = Precision::kBf16;
  ASSERT_TRUE(RunTraining(config_, host, {}).ok());
  config_.precision = Precision::kFp32;
  const auto outcome = RunTraining(config_, host, {host.CheckpointFolder(10)});
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kFailedPrecondition) << outcome.status();
}

TEST_F(TrainingRunTest, AFullDiskAtPublicationIsWaitedOut) {
  FakeHost host = NewHost("a");
  int refusals = 3;
  host.on_publish = [&](const StagedCheckpoint& checkpoint) {
    return checkpoint.step == 5 && refusals-- > 0 ? absl::ResourceExhaustedError("no space left")
                                                  : absl::OkStatus();
  };
  int sleeps = 0;
  host.on_sleep = [&] { ++sleeps; };
  const auto outcome = RunTraining(config_, host, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->kind, RunOutcome::Kind::kSucceeded);
  EXPECT_THAT(host.waiting, ElementsAre("DISK_FULL", ""));
  EXPECT_EQ(sleeps, 3);
  EXPECT_EQ(host.published.size(), 5);
}

TEST_F(TrainingRunTest, AStopEndsTheWaitForAFullDisk) {
  FakeHost host = NewHost("a");
  host.on_publish = [&](const StagedCheckpoint& checkpoint) {
    return checkpoint.step > 0 ? absl::ResourceExhaustedError("no space left") : absl::OkStatus();
  };
  host.on_sleep = [&] { host.on_poll = [] { return StopRequest::kPause; }; };
  const auto outcome = RunTraining(config_, host, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->kind, RunOutcome::Kind::kPaused);
  EXPECT_THAT(outcome->message, HasSubstr("no space left"));
  EXPECT_EQ(host.published.back().step, 0);
}

// A real file system with no room left while the files are written.
TEST_F(TrainingRunTest, AFullDiskWhileWritingIsWaitedOut) {
  FakeHost before = NewHost("before");
  ASSERT_TRUE(RunTraining(config_, before, {}).ok());
  FakeHost host = NewHost("a");
  host.staging = scratch_.Path("full");
  ASSERT_TRUE(fs_.CreateDirectories(host.staging).ok());
  ASSERT_EQ(mount("tmpfs", host.staging.c_str(), "tmpfs", 0, "size=128k"), 0);
  const std::string filler = JoinPath(host.staging, "filler");
  std::ofstream(filler) << std::string(120 << 10, 'x');
  host.on_sleep = [&] { fs_.Remove(filler).IgnoreError(); };
  // The folder cannot be renamed away from its file system; that it was written is enough.
  host.on_publish = [&](const StagedCheckpoint& checkpoint) -> absl::Status {
    EXPECT_TRUE(ReadCheckpoint(fs_, checkpoint.path, at::kCPU).ok());
    return absl::UnavailableError("enough seen");
  };
  const auto outcome = RunTraining(config_, host, {before.CheckpointFolder(0)});
  EXPECT_EQ(umount(host.staging.c_str()), 0);
  EXPECT_EQ(outcome.status().message(), "enough seen");
  EXPECT_THAT(host.waiting, ElementsAre("DISK_FULL", ""));
}

TEST_F(TrainingRunTest, AnAllMaskedBatchIsSkippedAndCounted) {
  FakeHost probe = NewHost("probe");
  // Mask the sequences of the third batch.
  const auto source = *probe.OpenTraining(2 * config_.sequences_per_step);
  for (int64_t i = 0; i < config_.sequences_per_step; ++i) {
    store::Sequence sequence;
    ASSERT_TRUE(source->Next(sequence).ok());
    set_.sequences[sequence.index].mask.assign(config_.set.context, 0);
  }
  config_.total_tokens = 4 * config_.tokens_per_step();
  FakeHost host = NewHost("a");
  const auto outcome = RunTraining(config_, host, {});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->tokens, config_.total_tokens);
  std::vector<int64_t> steps;
  for (const MetricPoint& point : host.Points(MetricKind::kTraining)) steps.push_back(point.step);
  EXPECT_THAT(steps, ElementsAre(1, 2, 4));
  EXPECT_EQ(host.metrics.back().step, 4);
  const auto checkpoint = ReadCheckpoint(fs_, host.CheckpointFolder(4), at::kCPU);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->state.counts.skipped_batches, 1);
  EXPECT_EQ(checkpoint->state.adam.steps, 3);
}

TEST_F(TrainingRunTest, NanInTheActivationsIsReportedWithItsSequence) {
  FakeHost probe = NewHost("probe");
  // A sequence that the initialisation's sample, bounded by the number of training sequences, sees.
  store::Sequence sequence;
  ASSERT_TRUE((*probe.OpenTraining(5))->Next(sequence).ok());
  set_.sequences[sequence.index].mhsa_input.replace(0, 4, "\x00\x00\xc0\x7f", 4);
  FakeHost host = NewHost("a");
  const auto outcome = RunTraining(config_, host, {});
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(outcome.status().message()),
              HasSubstr(absl::StrCat("Sequence ", sequence.index, " of the activation set")));
}

TEST_F(TrainingRunTest, WhatCannotBeIsRefusedByName) {
  FakeHost host = NewHost("a");
  TrainConfig config = config_;
  config.lorsa.top_k = 17;
  EXPECT_THAT(std::string(RunTraining(config, host, {}).status().message()), HasSubstr("top_k"));
  config = config_;
  config.lorsa.d_qk = 6;
  EXPECT_THAT(std::string(RunTraining(config, host, {}).status().message()), HasSubstr("d_qk"));
  set_.attention.clear();
  EXPECT_THAT(std::string(RunTraining(config_, host, {}).status().message()),
              HasSubstr("attention.safetensors"));
}

}  // namespace
}  // namespace lorsa::trainer

#include "trainer/train/training_run.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/lorsa/make_lorsa_kernel.h"
#include "trainer/lorsa/torch_guard.h"
#include "trainer/train/batch_reader.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/configure_libtorch.h"
#include "trainer/train/dead_heads.h"
#include "trainer/train/decoder_refit.h"
#include "trainer/train/evaluation.h"
#include "trainer/train/head_resampling.h"
#include "trainer/train/initialization.h"
#include "trainer/train/learner.h"
#include "trainer/train/run_reporter.h"
#include "trainer/train/training_sample.h"
#include "trainer/train/training_state.h"
#include "trainer/train/weight_average.h"

namespace lorsa::trainer {
namespace {

constexpr absl::Duration kDiskFullRetryInterval = absl::Seconds(5);
constexpr char kDiskFull[] = "DISK_FULL";

RunOutcome::Kind OutcomeOf(StopRequest stop) {
  switch (stop) {
    case StopRequest::kPause:
      return RunOutcome::Kind::kPaused;
    case StopRequest::kDrain:
      return RunOutcome::Kind::kDrained;
    case StopRequest::kCancel:
      return RunOutcome::Kind::kCancelled;
    case StopRequest::kNone:
      break;
  }
  return RunOutcome::Kind::kSucceeded;
}

// A seed of its own for each step of each run: the finaliser of SplitMix64.
uint64_t StepSeed(uint64_t seed, int64_t step) {
  uint64_t mixed = seed + 0x9e3779b97f4a7c15u * (static_cast<uint64_t>(step) + 1);
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

class TrainingRun {
 public:
  TrainingRun(const TrainConfig& config, RunHost& host, std::unique_ptr<LorsaKernel> kernel)
      : config_(config),
        host_(host),
        reporter_(config, host),
        kernel_(std::move(kernel)),
        learner_(config, *kernel_) {}

  absl::StatusOr<RunOutcome> Run(absl::Span<const std::string> checkpoint_folders) {
    const absl::Status started = Start(checkpoint_folders);
    if (absl::IsCancelled(started) && Stopping()) {
      return Outcome(OutcomeOf(host_.stop_requested()), "Stopped before there were weights.");
    }
    LORSA_RETURN_IF_ERROR(started);
    const absl::Status status = TrainToTheEnd();
    if (status.ok()) return Outcome(RunOutcome::Kind::kSucceeded, "");
    // CANCELLED from the host broke a wait off because of a stop request, as did RESOURCE_EXHAUSTED
    // the wait for a full disk.
    const bool interrupted = absl::IsCancelled(status) || absl::IsResourceExhausted(status);
    if (interrupted && Stopping()) return Stop();
    return status;
  }

 private:
  // --- Beginning and end ---

  absl::Status Start(absl::Span<const std::string> checkpoint_folders) {
    reporter_.Phase("initializing", state_.counts);
    for (const std::string& folder : checkpoint_folders) {
      absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(host_.file_system(), folder, device_);
      if (checkpoint.ok()) return Resume(folder, *std::move(checkpoint));
      host_.ReportWarning(
          absl::StrCat("A checkpoint is not used: ", checkpoint.status().message()));
    }
    state_.counts.seed = config_.seed;
    state_.counts.precision = config_.precision;
    state_.adam = NewAdamState(config_.lorsa, device_);
    state_.tokens_since_fired =
        at::zeros({config_.lorsa.n_ov_heads}, at::device(device_).dtype(at::kLong));
    LORSA_ASSIGN_OR_RETURN(state_.parameters,
                           InitializeParameters(config_, host_, *kernel_, device_));
    if (config_.ema_fraction > 0) {
      state_.averaged = CloneParameters(config_.lorsa, state_.parameters);
    }
    return absl::OkStatus();
  }

  absl::Status Resume(const std::string& folder, Checkpoint checkpoint) {
    const TrainingCounts& counts = checkpoint.state.counts;
    if (FormatCheckpointConfig(checkpoint.config) !=
            FormatCheckpointConfig(CheckpointConfigOf(config_)) ||
        counts.seed != config_.seed || counts.precision != config_.precision ||
        checkpoint.state.averaged.has_value() != (config_.ema_fraction > 0) ||
        counts.sequences_consumed != counts.step * config_.sequences_per_step) {
      return absl::FailedPreconditionError(absl::StrCat(
          folder, " is a checkpoint of another configuration; start a new run without it."));
    }
    if (!(checkpoint.environment == CurrentEnvironment(config_.ranks))) {
      host_.ReportWarning(absl::StrCat(
          folder,
          " was written with another build, instruction set or number of threads or ranks; ",
          "the run goes on, but not bit for bit as it would have there."));
    }
    state_ = std::move(checkpoint.state);
    checkpointed_step_ = state_.counts.step;
    return absl::OkStatus();
  }

  RunOutcome Outcome(RunOutcome::Kind kind, std::string message) const {
    return {.kind = kind, .step = state_.counts.step, .tokens = Tokens(), .message = message};
  }

  // A pause or a drain leaves a checkpoint of where the run stands.
  absl::StatusOr<RunOutcome> Stop() {
    if (host_.stop_requested() == StopRequest::kCancel) {
      return Outcome(RunOutcome::Kind::kCancelled, "");
    }
    const absl::Status status =
        checkpointed_step_ == state_.counts.step ? absl::OkStatus() : TakeCheckpoint();
    const RunOutcome::Kind kind = OutcomeOf(host_.stop_requested());
    if (status.ok() || kind == RunOutcome::Kind::kCancelled) return Outcome(kind, "");
    if (!absl::IsResourceExhausted(status) && !absl::IsCancelled(status)) return status;
    return Outcome(kind, absl::StrCat("Stopped without a new checkpoint: ", status.message()));
  }

  // --- The loop ---

  // CANCELLED once a stop is requested.
  absl::Status TrainToTheEnd() {
    while (true) {
      LORSA_RETURN_IF_ERROR(CheckStop());
      if (RefitIsDue()) LORSA_RETURN_IF_ERROR(RefitNow());
      if (IsDue(config_.evaluation_interval_steps()) &&
          state_.counts.evaluated_step != state_.counts.step) {
        LORSA_RETURN_IF_ERROR(EvaluateNow());
      }
      if (IsDue(config_.checkpoint_interval_steps()) && checkpointed_step_ != state_.counts.step) {
        LORSA_RETURN_IF_ERROR(TakeCheckpoint());
      }
      if (state_.counts.step >= config_.total_steps()) return absl::OkStatus();
      LORSA_RETURN_IF_ERROR(TakeStep());
    }
  }

  absl::Status TakeStep() {
    if (training_ == nullptr) LORSA_RETURN_IF_ERROR(BeginTraining());
    LORSA_ASSIGN_OR_RETURN(const int64_t resampled, ResampleIfDue());
    LORSA_ASSIGN_OR_RETURN(const LoadedBatch loaded, training_->Next(config_.sequences_per_step));
    if (static_cast<int64_t>(loaded.sequences.size()) < config_.sequences_per_step) {
      return absl::InternalError("The source of training sequences ended; it must not.");
    }
    std::optional<StepReport> report;
    if (loaded.targets > 0) {
      LORSA_ASSIGN_OR_RETURN(report, learner_.Step(loaded, state_));
      report->resampled_heads = resampled;
    }
    state_.counts.skipped_batches += loaded.targets == 0;
    state_.counts.sequences_consumed += config_.sequences_per_step;
    ++state_.counts.step;
    const absl::Time now = host_.Now();
    const StepTime time{.elapsed = now - std::exchange(step_began_, now), .waited = loaded.waited};
    if (report) reporter_.Step(*report, time, state_.counts);
    return absl::OkStatus();
  }

  absl::Status BeginTraining() {
    reporter_.Phase("training", state_.counts);
    step_began_ = host_.Now();
    LORSA_ASSIGN_OR_RETURN(auto source, host_.OpenTraining(state_.counts.sequences_consumed));
    training_ = std::make_unique<BatchReader>(config_, host_, std::move(source), device_);
    return absl::OkStatus();
  }

  // Dead heads begin anew, from the sequences that come next; how many. A pure function of the
  // state and the seed, so that a resumed run does the same.
  absl::StatusOr<int64_t> ResampleIfDue() {
    if (!config_.ResamplesAt(state_.counts.step)) return 0;
    const at::Tensor dead = DeadHeads(config_, state_);
    if (!dead.any().item<bool>()) return 0;
    LORSA_ASSIGN_OR_RETURN(const TrainingSample sample,
                           ReadTrainingSample(config_, host_, state_.counts.sequences_consumed,
                                              kResamplePositions, device_));
    at::Generator generator =
        at::make_generator<at::CPUGeneratorImpl>(StepSeed(config_.seed, state_.counts.step));
    HeadRows rows = ResampleHeads(config_, *kernel_, state_.parameters, sample, dead, generator);
    ReplaceHeads(rows, dead.logical_not(), state_);
    return rows.heads.numel();
  }

  // --- The end, evaluations and checkpoints ---

  bool RefitIsDue() const {
    return config_.refit_tokens > 0 && !state_.counts.refitted &&
           state_.counts.step >= config_.total_steps();
  }

  absl::Status RefitNow() {
    reporter_.Phase("refitting", state_.counts);
    LORSA_ASSIGN_OR_RETURN(const DecoderRefit refit,
                           RefitDecoder(
                               config_, host_, *kernel_, state_.counts.sequences_consumed, device_,
                               [this] { return Stopping(); }, state_.published()));
    if (refit.length == 0) {
      host_.ReportWarning(
          "The refit of W_O and b_D did not lower the error, so they stay as trained; give more "
          "refit_tokens or a larger refit_ridge.");
    }
    state_.counts.refitted = true;
    return absl::OkStatus();
  }

  absl::Status EvaluateNow() {
    reporter_.Phase("evaluating", state_.counts);
    LORSA_ASSIGN_OR_RETURN(auto source, host_.OpenHeldOut());
    BatchReader reader(config_, host_, std::move(source), device_);
    LORSA_ASSIGN_OR_RETURN(
        auto values, Evaluate(*kernel_, state_.published(), reader, config_.sequences_per_step,
                              config_.output_scale(), [this] { return Stopping(); }));
    TrainingCounts& counts = state_.counts;
    if (!std::isfinite(values.at("fvu"))) {
      return absl::AbortedError(absl::StrCat("The held-out error is NaN or Inf at step ",
                                             counts.step, "; lower the learning rate."));
    }
    counts.evaluated_step = counts.step;
    counts.fvu = values.at("fvu");
    counts.best_fvu = std::min(counts.best_fvu.value_or(*counts.fvu), *counts.fvu);
    reporter_.Evaluation(std::move(values), counts);
    // A checkpoint of this step, made when a stop broke its evaluation off, lacks these numbers.
    checkpointed_step_.reset();
    ResumeTrainingPhase();
    return absl::OkStatus();
  }

  // A full disk is waited out: RESOURCE_EXHAUSTED only if a stop was requested meanwhile.
  absl::Status TakeCheckpoint() {
    reporter_.Phase("checkpointing", state_.counts);
    absl::Status status = WriteAndPublish();
    const bool waits = absl::IsResourceExhausted(status) && !Stopping();
    if (waits) host_.ReportWaiting(kDiskFull);
    while (absl::IsResourceExhausted(status) && !Stopping()) {
      host_.Sleep(kDiskFullRetryInterval);
      status = WriteAndPublish();
    }
    if (waits) host_.ReportWaiting("");
    LORSA_RETURN_IF_ERROR(status);
    checkpointed_step_ = state_.counts.step;
    ResumeTrainingPhase();
    return absl::OkStatus();
  }

  absl::Status WriteAndPublish() {
    const TrainingCounts& counts = state_.counts;
    const std::string folder = CheckpointFolderName(counts.step);
    const std::string path = JoinPath(host_.staging_folder(), folder);
    const Checkpoint checkpoint{.config = CheckpointConfigOf(config_),
                                .state = state_,
                                .environment = CurrentEnvironment(config_.ranks)};
    LORSA_ASSIGN_OR_RETURN(const std::string sha256,
                           WriteCheckpoint(host_.file_system(), path, checkpoint, host_.Now()));
    const bool evaluated = counts.evaluated_step == counts.step;
    return host_.PublishCheckpoint({.folder = folder,
                                    .path = path,
                                    .step = counts.step,
                                    .tokens = Tokens(),
                                    .manifest_sha256 = sha256,
                                    .fvu = evaluated ? counts.fvu : std::nullopt,
                                    .scheduled = IsDue(config_.checkpoint_interval_steps())});
  }

  // Time spent evaluating or writing is not training's.
  void ResumeTrainingPhase() {
    if (training_ == nullptr) return;
    step_began_ = host_.Now();
    reporter_.Phase("training", state_.counts);
  }

  // --- Small things ---

  bool IsDue(int64_t interval) const {
    return state_.counts.step % interval == 0 || state_.counts.step >= config_.total_steps();
  }
  int64_t Tokens() const { return state_.counts.sequences_consumed * config_.set.context; }
  bool Stopping() { return host_.stop_requested() != StopRequest::kNone; }
  absl::Status CheckStop() {
    return Stopping() ? absl::CancelledError("A stop was requested.") : absl::OkStatus();
  }

  const at::Device device_ = at::kCPU;
  const TrainConfig& config_;
  RunHost& host_;
  RunReporter reporter_;
  const std::unique_ptr<LorsaKernel> kernel_;
  Learner learner_;
  TrainingState state_;
  std::unique_ptr<BatchReader> training_;  // opened at the first step
  absl::Time step_began_;
  std::optional<int64_t> checkpointed_step_;  // of the newest checkpoint
};

}  // namespace

absl::StatusOr<RunOutcome> RunTraining(const TrainConfig& config, RunHost& host,
                                       absl::Span<const std::string> checkpoint_folders,
                                       const KernelDecorator& decorate) {
  LORSA_RETURN_IF_ERROR(ValidateTrainConfig(config));
  return GuardTorch([&] {
    ConfigureLibtorch(config.threads);
    std::unique_ptr<LorsaKernel> kernel = MakeLorsaKernel(config.lorsa, config.precision, at::kCPU);
    if (decorate) kernel = decorate(std::move(kernel));
    return TrainingRun(config, host, std::move(kernel)).Run(checkpoint_folders);
  });
}

}  // namespace lorsa::trainer

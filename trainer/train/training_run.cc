#include "trainer/train/training_run.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "trainer/lorsa/make_lorsa_kernel.h"
#include "trainer/lorsa/torch_guard.h"
#include "trainer/train/batch_prefetcher.h"
#include "trainer/train/batch_reader.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/checkpoint_history.h"
#include "trainer/train/checkpoint_writer.h"
#include "trainer/train/configure_libtorch.h"
#include "trainer/train/dead_heads.h"
#include "trainer/train/decoder_refit.h"
#include "trainer/train/evaluation.h"
#include "trainer/train/head_resampling.h"
#include "trainer/train/initialization.h"
#include "trainer/train/learner.h"
#include "trainer/train/preflight.h"
#include "trainer/train/rollback.h"
#include "trainer/train/run_reporter.h"
#include "trainer/train/training_sample.h"
#include "trainer/train/training_state.h"
#include "trainer/train/weight_average.h"

namespace lorsa::trainer {
namespace {

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

// Metrics on the held-out sequences.
struct Measured {
  std::map<std::string, double> values;
  absl::Duration took;
  double fvu() const { return values.at("fvu"); }
};

// Why there is no refitted decoder to choose; empty if there is one.
std::string WhyNoRefit(const absl::StatusOr<DecoderRefit>& refit) {
  if (!refit.ok()) {
    return absl::StrCat("The refit of W_O and b_D was not possible, so they stay as trained: ",
                        refit.status().message());
  }
  if (refit->length > 0) return "";
  return "The refit of W_O and b_D was rejected, so they stay as trained: it did not lower the "
         "error "
         "on training sequences that it was not fitted to; give more refit_tokens or a larger "
         "refit_ridge.";
}

// Empty if the refit lowers the held-out FVU.
std::string WhyWorse(double fvu_before, double fvu_after) {
  if (fvu_after < fvu_before) return "";
  return absl::StrCat(
      "The refit of W_O and b_D was rejected, so they stay as trained: it would "
      "change the held-out FVU from ",
      fvu_before, " to ", fvu_after,
      "; look for outlier targets in the activation set, or give more "
      "refit_tokens or a larger refit_ridge.");
}

class TrainingRun {
 public:
  TrainingRun(const TrainConfig& config, RunHost& host,
              absl::Span<const std::string> checkpoint_folders, const RunOptions& options,
              std::unique_ptr<LorsaKernel> kernel)
      : config_(config),
        host_(host),
        options_(options),
        history_(config, host, checkpoint_folders, options.first_step),
        reporter_(config, host),
        kernel_(std::move(kernel)),
        learner_(config, *kernel_),
        writer_(host) {}

  absl::StatusOr<RunOutcome> Run() {
    began_ = host_.Uptime();
    const absl::Status started = Start();
    if (IsInterruption(started)) {
      return Outcome(OutcomeOf(host_.stop_requested()), "Stopped before there were weights.");
    }
    LORSA_RETURN_IF_ERROR(started);
    const absl::Status status = TrainToTheEnd();
    if (status.ok()) return Outcome(RunOutcome::Kind::kSucceeded, refit_rejection_);
    return IsInterruption(status) ? Stop() : absl::StatusOr<RunOutcome>(status);
  }

 private:
  // --- Beginning and end ---

  // CANCELLED from the host broke a wait off because of a stop request, as did RESOURCE_EXHAUSTED
  // the wait for a full disk.
  bool IsInterruption(const absl::Status& status) {
    return (absl::IsCancelled(status) || absl::IsResourceExhausted(status)) && Stopping();
  }

  absl::Status Start() {
    reporter_.Phase("initializing", state_.counts);
    LORSA_RETURN_IF_ERROR(CheckResources(config_, host_, /*fresh=*/history_.empty()));
    LORSA_ASSIGN_OR_RETURN(const Rollbacks rollbacks,
                           ReadRollbacks(host_.file_system(), host_.rollbacks_file()));
    absl::StatusOr<TrainingState> state = history_.Newest(rollbacks, device_);
    if (state.ok()) GoOnFrom(*std::move(state));
    if (!absl::IsNotFound(state.status())) return state.status();
    if (options_.first_step == 0) return Initialize(rollbacks);
    return absl::DataLossError(
        absl::StrCat("The checkpoint of step ", options_.first_step, ", which this run was to go ",
                     "on from, cannot be used any more; fork it anew from another one."));
  }

  absl::Status Initialize(const Rollbacks& rollbacks) {
    state_.counts.seed = config_.seed;
    state_.counts.precision = config_.precision;
    state_.counts.rollbacks = rollbacks;
    state_.adam = NewAdamState(config_.lorsa, device_);
    state_.tokens_since_fired =
        at::zeros({config_.lorsa.n_ov_heads}, at::device(device_).dtype(at::kLong));
    LORSA_ASSIGN_OR_RETURN(
        state_.parameters,
        InitializeParameters(config_, host_, options_.initial_checkpoint, *kernel_, device_));
    if (config_.ema_fraction > 0) {
      state_.averaged = CloneParameters(config_.lorsa, state_.parameters);
    }
    return absl::OkStatus();
  }

  void GoOnFrom(TrainingState state) {
    state_ = std::move(state);
    // The end of another run may have been refitted; this one goes beyond it.
    if (state_.counts.step < config_.total_steps()) state_.counts.refitted = false;
    checkpointed_step_ = state_.counts.step;
    training_.reset();
  }

  RunOutcome Outcome(RunOutcome::Kind kind, std::string message) {
    return {.kind = kind,
            .step = state_.counts.step,
            .tokens = Tokens(),
            .message = message,
            .took = host_.Uptime() - began_,
            .expected = expected_.value_or(absl::ZeroDuration())};
  }

  // A pause or a drain leaves a checkpoint of where the run stands.
  absl::StatusOr<RunOutcome> Stop() {
    if (host_.stop_requested() == StopRequest::kCancel) {
      return Outcome(RunOutcome::Kind::kCancelled, "");
    }
    absl::Status status = TakeCheckpoint();
    if (status.ok()) status = FinishCheckpoint();
    const RunOutcome::Kind kind = OutcomeOf(host_.stop_requested());
    if (status.ok() || kind == RunOutcome::Kind::kCancelled) return Outcome(kind, "");
    if (!absl::IsResourceExhausted(status) && !absl::IsCancelled(status) && !IsNotFinite(status)) {
      return status;
    }
    return Outcome(kind, absl::StrCat("Stopped without a new checkpoint: ", status.message()));
  }

  // --- The loop ---

  // CANCELLED once a stop is requested.
  absl::Status TrainToTheEnd() {
    while (true) {
      LORSA_RETURN_IF_ERROR(CheckStop());
      const absl::StatusOr<bool> more = Advance();
      if (IsNotFinite(more.status())) {
        LORSA_RETURN_IF_ERROR(RollBack(more.status()));
        continue;
      }
      LORSA_RETURN_IF_ERROR(more.status());
      if (!*more) return absl::OkStatus();
    }
  }

  // Refits and evaluates, makes a checkpoint and takes a step, as is due; false if the run is at
  // its end.
  absl::StatusOr<bool> Advance() {
    last_step_ = state_.counts.step;
    if (RefitIsDue()) LORSA_RETURN_IF_ERROR(RefitNow());
    if (config_.evaluation_is_due(state_.counts.step) &&
        state_.counts.evaluated_step != state_.counts.step) {
      LORSA_RETURN_IF_ERROR(EvaluateNow());
    }
    if (config_.checkpoint_is_due(state_.counts.step)) LORSA_RETURN_IF_ERROR(TakeCheckpoint());
    if (state_.counts.step >= config_.total_steps()) {
      LORSA_RETURN_IF_ERROR(FinishCheckpoint());
      return false;
    }
    LORSA_RETURN_IF_ERROR(Note(writer_.Poll()));
    last_step_ = state_.counts.step + 1;
    LORSA_RETURN_IF_ERROR(TakeStep());
    return true;
  }

  absl::Status TakeStep() {
    if (training_ == nullptr) LORSA_RETURN_IF_ERROR(BeginTraining());
    const absl::Duration asked = host_.Uptime();
    LORSA_ASSIGN_OR_RETURN(const LoadedBatch loaded,
                           training_->Next([this] { return Stopping(); }));
    const absl::Duration waited = host_.Uptime() - asked;
    if (static_cast<int64_t>(loaded.sequences.size()) < config_.sequences_per_step) {
      return absl::InternalError("The source of training sequences ended; it must not.");
    }
    // Nothing from here on may be broken off by a stop: the state is between two steps.
    LORSA_ASSIGN_OR_RETURN(const int64_t resampled, ResampleIfDue());
    std::optional<StepReport> report;
    const bool skipped =
        loaded.targets == 0 || LeavesOut(state_.counts.rollbacks, state_.counts.step + 1);
    if (!skipped) {
      LORSA_ASSIGN_OR_RETURN(report, learner_.Step(loaded, state_));
      report->resampled_heads = resampled;
    }
    state_.counts.skipped_batches += skipped;
    state_.counts.sequences_consumed += config_.sequences_per_step;
    ++state_.counts.step;
    const absl::Duration now = host_.Uptime();
    const StepTime time{.elapsed = now - std::exchange(step_began_, now), .waited = waited};
    if (report) reporter_.Step(*report, time, state_.counts);
    if (!expected_) {
      if (const auto remaining = reporter_.Remaining(state_.counts)) {
        expected_ = now - began_ + *remaining;
      }
    }
    return absl::OkStatus();
  }

  absl::Status BeginTraining() {
    reporter_.Phase("training", state_.counts);
    step_began_ = host_.Uptime();
    LORSA_ASSIGN_OR_RETURN(auto source, host_.OpenTraining(state_.counts.sequences_consumed));
    training_ = std::make_unique<BatchPrefetcher>(config_, std::move(source),
                                                  config_.sequences_per_step, device_);
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

  // Publishes the refitted decoder if it lowers the held-out FVU, else the trained one, and reports
  // the evaluation of what it chose. No error of the refit itself ends the run.
  absl::Status RefitNow() {
    reporter_.Phase("refitting", state_.counts);
    const absl::StatusOr<DecoderRefit> refit = GuardTorch([&] {
      return RefitDecoder(
          config_, host_, *kernel_, state_.counts.sequences_consumed, device_,
          [this] { return Stopping(); }, state_.published());
    });
    if (absl::IsCancelled(refit.status())) return refit.status();
    reporter_.Phase("evaluating", state_.counts);
    LORSA_ASSIGN_OR_RETURN(const Measured trained, MeasureTrained());
    LORSA_ASSIGN_OR_RETURN(Measured chosen, Choose(refit, trained));
    if (!refit_rejection_.empty()) host_.ReportWarning(refit_rejection_);
    state_.counts.refitted = true;
    chosen.values["fvu_before_refit"] = trained.fvu();
    Take(std::move(chosen));
    return absl::OkStatus();
  }

  // Puts the refitted decoder in the trained one's place, or notes why not; what was measured of
  // the one that is chosen.
  absl::StatusOr<Measured> Choose(const absl::StatusOr<DecoderRefit>& refit, Measured trained) {
    trained.values["refit_length"] = 0;
    refit_rejection_ = WhyNoRefit(refit);
    if (!refit_rejection_.empty()) return trained;
    LORSA_ASSIGN_OR_RETURN(Measured refitted, Measure(refit->parameters));
    refit_rejection_ = WhyWorse(trained.fvu(), refitted.fvu());
    if (!refit_rejection_.empty()) return trained;
    state_.published() = refit->parameters;
    refitted.values["refit_length"] = refit->length;
    return refitted;
  }

  absl::Status EvaluateNow() {
    reporter_.Phase("evaluating", state_.counts);
    LORSA_ASSIGN_OR_RETURN(Measured measured, MeasureTrained());
    Take(std::move(measured));
    return absl::OkStatus();
  }

  absl::StatusOr<Measured> Measure(const LorsaParameters& parameters) {
    const absl::Duration began = host_.Uptime();
    LORSA_ASSIGN_OR_RETURN(auto source, host_.OpenHeldOut());
    BatchReader reader(config_, std::move(source), device_);
    LORSA_ASSIGN_OR_RETURN(auto values,
                           Evaluate(*kernel_, parameters, reader, config_.sequences_per_step,
                                    config_.output_scale(), [this] { return Stopping(); }));
    return Measured{.values = std::move(values), .took = host_.Uptime() - began};
  }

  // Of the weights as they are; a NotFiniteError if their error is not finite.
  absl::StatusOr<Measured> MeasureTrained() {
    LORSA_ASSIGN_OR_RETURN(Measured measured, Measure(state_.published()));
    if (std::isfinite(measured.fvu())) return measured;
    return NotFiniteError(absl::StrCat("The held-out error is NaN or Inf at step ",
                                       state_.counts.step, "; lower the learning rate."));
  }

  // Makes `measured` the evaluation of this step.
  void Take(Measured measured) {
    TrainingCounts& counts = state_.counts;
    counts.evaluated_step = counts.step;
    counts.fvu = measured.fvu();
    counts.best_fvu = std::min(counts.best_fvu.value_or(*counts.fvu), *counts.fvu);
    reporter_.Evaluation(std::move(measured.values), measured.took, counts);
    // A checkpoint of this step, made when a stop broke its evaluation off, lacks these numbers.
    checkpointed_step_.reset();
    ResumeTrainingPhase();
  }

  // Begins a checkpoint of this state, unless there is one; after the one before it, if that is
  // still on its way.
  absl::Status TakeCheckpoint() {
    if (checkpointed_step_ == state_.counts.step) return absl::OkStatus();
    reporter_.Phase("checkpointing", state_.counts);
    LORSA_RETURN_IF_ERROR(FinishCheckpoint());
    const TrainingCounts& counts = state_.counts;
    const bool evaluated = counts.evaluated_step == counts.step;
    const Checkpoint checkpoint{.config = CheckpointConfigOf(config_),
                                .state = state_,
                                .environment = CurrentEnvironment(config_.ranks)};
    writer_.Start(ContentsOf(checkpoint), {.tokens = Tokens(),
                                           .fvu = evaluated ? counts.fvu : std::nullopt,
                                           .scheduled = IsScheduled(config_, counts)});
    checkpointed_step_ = counts.step;
    ResumeTrainingPhase();
    return absl::OkStatus();
  }

  // Waits for the checkpoint that is on its way.
  absl::Status FinishCheckpoint() {
    if (writer_.busy()) reporter_.Phase("checkpointing", state_.counts);
    return Note(writer_.Finish());
  }

  absl::Status Note(const absl::StatusOr<std::optional<std::string>>& published) {
    if (!published.ok()) checkpointed_step_.reset();  // It may be tried again, e.g. by a stop.
    LORSA_RETURN_IF_ERROR(published.status());
    if (*published) history_.Add(**published);
    return absl::OkStatus();
  }

  // --- Rollbacks; the numbers are those of rollback.h ---

  absl::Status RollBack(const absl::Status& cause) {
    Rollbacks rollbacks = state_.counts.rollbacks;
    if (static_cast<int64_t>(rollbacks.size()) >= config_.max_rollbacks) {
      return absl::AbortedError(absl::StrCat(cause.message(), " The run went back ",
                                             rollbacks.size(), " times before (max_rollbacks)."));
    }
    LORSA_RETURN_IF_ERROR(FinishCheckpoint());  // 1
    absl::StatusOr<TrainingState> state =
        history_.NewestScheduledBefore(last_step_, rollbacks, device_);  // 2
    if (absl::IsNotFound(state.status())) return cause;
    LORSA_RETURN_IF_ERROR(state.status());
    rollbacks.push_back({.failed_step = last_step_, .to_step = state->counts.step});
    // A stop while the disk is full must find a state that it can leave.
    state->counts.rollbacks = state_.counts.rollbacks;
    GoOnFrom(*std::move(state));
    LORSA_RETURN_IF_ERROR(WaitForSpace(host_, [&] {  // 3
      LORSA_RETURN_IF_ERROR(WriteRollbacks(host_.file_system(), host_.rollbacks_file(), rollbacks));
      return host_.KeepRollbacks();
    }));
    state_.counts.rollbacks = std::move(rollbacks);
    host_.ReportWarning(absl::StrCat(
        cause.message(), " The run goes back to step ", state_.counts.step, ", ",
        state_.counts.rollbacks.size(), " of at most ", config_.max_rollbacks,
        " times, and on with ", LearningRateFactor(state_.counts.rollbacks, last_step_),
        " of the scheduled learning rate and without the batch of step ", last_step_, "."));
    return absl::OkStatus();  // 4
  }

  // Time spent evaluating or writing is not training's.
  void ResumeTrainingPhase() {
    if (training_ == nullptr) return;
    step_began_ = host_.Uptime();
    reporter_.Phase("training", state_.counts);
  }

  // --- Small things ---

  int64_t Tokens() const { return state_.counts.sequences_consumed * config_.set.context; }
  bool Stopping() { return host_.stop_requested() != StopRequest::kNone; }
  absl::Status CheckStop() {
    return Stopping() ? absl::CancelledError("A stop was requested.") : absl::OkStatus();
  }

  const at::Device device_ = at::kCPU;
  const TrainConfig& config_;
  RunHost& host_;
  const RunOptions& options_;
  CheckpointHistory history_;
  RunReporter reporter_;
  const std::unique_ptr<LorsaKernel> kernel_;
  Learner learner_;
  CheckpointWriter writer_;
  TrainingState state_;
  std::unique_ptr<BatchPrefetcher> training_;  // opened at the first step
  absl::Duration began_;
  absl::Duration step_began_;
  std::optional<absl::Duration> expected_;    // for all of the run, by its first steps
  std::optional<int64_t> checkpointed_step_;  // of the newest checkpoint, begun or published
  int64_t last_step_ = 0;                     // newest step taken or tried
  std::string refit_rejection_;               // one sentence; empty: none was rejected
};

}  // namespace

absl::StatusOr<RunOutcome> RunTraining(const TrainConfig& config, RunHost& host,
                                       absl::Span<const std::string> checkpoint_folders,
                                       const RunOptions& options) {
  LORSA_RETURN_IF_ERROR(ValidateTrainConfig(config));
  return GuardTorch([&] {
    ConfigureLibtorch(config.threads);
    std::unique_ptr<LorsaKernel> kernel = MakeLorsaKernel(config.lorsa, config.precision, at::kCPU);
    if (options.decorate) kernel = options.decorate(std::move(kernel));
    return TrainingRun(config, host, checkpoint_folders, options, std::move(kernel)).Run();
  });
}

}  // namespace lorsa::trainer

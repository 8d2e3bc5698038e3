// Publication of a checkpoint:
//   1. the run has written and fsynced the whole folder under staging/
//   2. an older folder of the same step under checkpoints/ (a run repeated after a crash) goes
//   3. rename staging/step-N to checkpoints/step-N
//   4. fsync checkpoints/
//   5. remove those that the rule does not keep
// A crash between 2 and 3 leaves the previous checkpoint as the newest; one within 5 leaves
// folders, perhaps half removed ones without a manifest, that the next 5 removes.
#include "trainer/worker/local_host.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "job_spec/retention.h"
#include "spdlog/spdlog.h"
#include "trainer/train/checkpoint.h"
#include "trainer/train/checkpoint_history.h"

namespace lorsa::worker {
namespace {

constexpr absl::Duration kProgressInterval = absl::Seconds(5);
constexpr absl::Duration kStopPollInterval = absl::Milliseconds(200);
constexpr int kReaderThreads = 2;

class LocalSource final : public trainer::SequenceSource {
 public:
  explicit LocalSource(std::unique_ptr<store::SequenceStream> stream)
      : stream_(std::move(stream)) {}
  absl::Status Next(store::Sequence& out) override { return stream_->Next(out); }
  void Cancel() override { stream_->Cancel(); }

 private:
  std::unique_ptr<store::SequenceStream> stream_;
};

}  // namespace

LocalHost::LocalHost(FileSystem& fs, std::shared_ptr<const store::ActivationSet> set,
                     const trainer::TrainConfig& config, std::string output_folder,
                     std::unique_ptr<FolderLock> lock, std::unique_ptr<store::ReaderPool> readers,
                     const std::atomic<bool>& stop)
    : fs_(fs),
      set_(std::move(set)),
      config_(config),
      output_folder_(std::move(output_folder)),
      lock_(std::move(lock)),
      readers_(std::move(readers)),
      stop_(stop),
      metrics_(JoinPath(output_folder_, "metrics.jsonl"), std::ios::app) {}

absl::StatusOr<std::unique_ptr<LocalHost>> LocalHost::Create(
    FileSystem& fs, std::shared_ptr<const store::ActivationSet> set,
    const trainer::TrainConfig& config, const std::string& output_folder,
    const std::atomic<bool>& stop) {
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(JoinPath(output_folder, "checkpoints")));
  LORSA_ASSIGN_OR_RETURN(auto lock, FolderLock::Acquire(JoinPath(output_folder, "lock")));
  LORSA_RETURN_IF_ERROR(fs.RemoveAll(JoinPath(output_folder, "staging")));
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(JoinPath(output_folder, "staging")));
  LORSA_ASSIGN_OR_RETURN(auto readers, store::ReaderPool::Create(kReaderThreads));
  return std::unique_ptr<LocalHost>(new LocalHost(fs, std::move(set), config, output_folder,
                                                  std::move(lock), std::move(readers), stop));
}

absl::StatusOr<std::vector<std::string>> LocalHost::CheckpointFolders() {
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_.List(CheckpointsFolder()));
  std::vector<std::string> folders;
  for (const std::string& name : names) {
    const std::string folder = JoinPath(CheckpointsFolder(), name);
    LORSA_ASSIGN_OR_RETURN(const bool whole,
                           fs_.Exists(JoinPath(folder, trainer::kCheckpointManifestFile)));
    if (whole) folders.push_back(folder);
  }
  std::reverse(folders.begin(), folders.end());  // Names sort by step.
  return folders;
}

absl::StatusOr<std::unique_ptr<trainer::SequenceSource>> LocalHost::Open(store::Subset subset,
                                                                         int64_t cursor) {
  LORSA_ASSIGN_OR_RETURN(auto stream,
                         store::SequenceStream::Open(set_, *readers_,
                                                     {.subset = subset,
                                                      .seed = config_.seed,
                                                      .cursor = cursor,
                                                      .reader_threads = kReaderThreads}));
  return std::make_unique<LocalSource>(std::move(stream));
}

absl::StatusOr<std::unique_ptr<trainer::SequenceSource>> LocalHost::OpenTraining(int64_t cursor) {
  return Open(store::Subset::kTraining, cursor);
}

absl::StatusOr<std::unique_ptr<trainer::SequenceSource>> LocalHost::OpenHeldOut() {
  return Open(store::Subset::kHeldOut, 0);
}

absl::StatusOr<std::string> LocalHost::LoadAttentionWeights() {
  const auto& record = set_->manifest().attention_weights;
  if (!record.has_value()) {
    return absl::NotFoundError(absl::StrCat(set_->folder(), " has no attention.safetensors"));
  }
  const std::string path = JoinPath(set_->folder(), record->file);
  LORSA_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(fs_, path));
  if (sha256 != record->sha256) {
    return absl::DataLossError(absl::StrCat(
        path, " is not the file that the manifest names: its sha256 differs. Restore it, or ",
        "harvest the set again."));
  }
  return path;
}

void LocalHost::ReportMetrics(const trainer::MetricPoint& point) {
  const bool evaluation = point.kind == trainer::MetricKind::kEvaluation;
  const nlohmann::json line = {{"kind", evaluation ? "evaluation" : "training"},
                               {"step", point.step},
                               {"tokens", point.tokens},
                               {"values", point.values}};
  if (!(metrics_ << line.dump() << std::endl)) {
    metrics_.clear();
    ReportWarning("metrics.jsonl cannot be written; this point is missing from it");
  }
  if (evaluation) spdlog::info("evaluation={}", line.dump());
}

void LocalHost::ReportProgress(const trainer::Progress& progress) {
  if (Uptime() - last_progress_ < kProgressInterval) return;
  last_progress_ = Uptime();
  spdlog::info("phase={} step={}/{} tokens={}/{} loss={:.4g} l0={:.1f} tokens_per_second={:.0f}",
               progress.phase, progress.step, progress.total_steps, progress.tokens,
               progress.total_tokens, progress.loss, progress.l0, progress.tokens_per_second);
}

void LocalHost::ReportWaiting(absl::string_view condition) {
  spdlog::warn("event=waiting condition={}", std::string(condition));
}

void LocalHost::ReportWarning(absl::string_view message) {
  spdlog::warn("event=warning message=\"{}\"", std::string(message));
}

absl::StatusOr<std::string> LocalHost::PublishCheckpoint(
    const trainer::StagedCheckpoint& checkpoint) {
  const std::string published = JoinPath(CheckpointsFolder(), checkpoint.folder);
  LORSA_RETURN_IF_ERROR(fs_.RemoveAll(published));                // 2
  LORSA_RETURN_IF_ERROR(fs_.Rename(checkpoint.path, published));  // 3
  LORSA_RETURN_IF_ERROR(fs_.SyncDirectory(CheckpointsFolder()));  // 4
  spdlog::info("checkpoint={}", published);
  // Housekeeping: the checkpoint is published whatever comes of it.
  if (const absl::Status kept = ApplyRetention(); !kept.ok()) {  // 5
    spdlog::warn("event=retention_failed error=\"{}\"", kept.ToString());
  }
  return published;
}

// What counts of each checkpoint is read from its own state.json.
absl::Status LocalHost::ApplyRetention() {
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_.List(CheckpointsFolder()));
  std::vector<RetainedCheckpoint> checkpoints;
  for (const std::string& name : names) {
    const std::string folder = JoinPath(CheckpointsFolder(), name);
    LORSA_ASSIGN_OR_RETURN(const bool whole,
                           fs_.Exists(JoinPath(folder, trainer::kCheckpointManifestFile)));
    if (!whole) {
      LORSA_RETURN_IF_ERROR(fs_.RemoveAll(folder));
      continue;
    }
    const auto counts = trainer::ReadCheckpointCounts(fs_, folder);
    if (!counts.ok()) continue;  // Kept for people to look at; a resume will complain.
    const bool evaluated = counts->evaluated_step == counts->step;
    checkpoints.push_back({.step = counts->step,
                           .tokens = counts->sequences_consumed * config_.set.context,
                           .fvu = evaluated ? counts->fvu : std::nullopt,
                           .scheduled = trainer::IsScheduled(config_, *counts)});
  }
  const RetentionPolicy retention{.keep_checkpoints = config_.keep_checkpoints,
                                  .keep_every_tokens = config_.keep_every_tokens};
  for (const int64_t step : CheckpointsToDelete(checkpoints, retention)) {
    const std::string folder = JoinPath(CheckpointsFolder(), trainer::CheckpointFolderName(step));
    // Without its manifest it is no checkpoint any more, however far the removal comes.
    LORSA_RETURN_IF_ERROR(fs_.Remove(JoinPath(folder, trainer::kCheckpointManifestFile)));
    LORSA_RETURN_IF_ERROR(fs_.RemoveAll(folder));
  }
  return fs_.SyncDirectory(CheckpointsFolder());
}

void LocalHost::ReportDamagedCheckpoint(int64_t step, absl::string_view why) {
  ReportWarning(why);
  const std::string name = trainer::CheckpointFolderName(step);
  const std::string damaged = JoinPath(output_folder_, "damaged");
  absl::Status moved = fs_.CreateDirectories(damaged);
  if (moved.ok()) moved = fs_.RemoveAll(JoinPath(damaged, name));
  if (moved.ok()) moved = fs_.Rename(JoinPath(CheckpointsFolder(), name), JoinPath(damaged, name));
  if (!moved.ok()) ReportWarning(moved.message());
}

trainer::StopRequest LocalHost::stop_requested() {
  return stop_ ? trainer::StopRequest::kDrain : trainer::StopRequest::kNone;
}

void LocalHost::Sleep(absl::Duration duration) {
  const absl::Duration end = Uptime() + duration;
  while (Uptime() < end && !stop_) absl::SleepFor(std::min(kStopPollInterval, end - Uptime()));
}

}  // namespace lorsa::worker

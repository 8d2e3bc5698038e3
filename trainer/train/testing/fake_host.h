// A RunHost in memory: sequences from a SyntheticSet, checkpoints in a folder of its own, and every
// report kept for the test to look at.
#ifndef LORSA_TRAINER_TRAIN_TESTING_FAKE_HOST_H_
#define LORSA_TRAINER_TRAIN_TESTING_FAKE_HOST_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/train/run_host.h"
#include "trainer/train/testing/synthetic_set.h"

namespace lorsa::trainer {

class FakeHost final : public RunHost {
 public:
  // `folder` is emptied; checkpoints go to folder/checkpoints. `set` outlives the host.
  FakeHost(const SyntheticSet& set, uint64_t seed, const std::string& folder);

  // --- What happens to the run ---
  std::function<StopRequest()> on_poll = [] { return StopRequest::kNone; };
  // Before a checkpoint is published; an error refuses it.
  std::function<absl::Status(const StagedCheckpoint&)> on_publish = [](const StagedCheckpoint&) {
    return absl::OkStatus();
  };
  // Before a published checkpoint is read, and when the list of rollbacks was written; an error is
  // what the run gets.
  std::function<absl::Status(const std::string&)> on_fetch = [](const std::string&) {
    return absl::OkStatus();
  };
  std::function<absl::Status()> on_keep_rollbacks = [] { return absl::OkStatus(); };
  std::function<void()> on_sleep = [] {};
  std::function<void()> on_warning = [] {};
  std::string staging;  // folder/staging
  MemoryUse memory{.resident = 1 << 20, .peak = 2 << 20, .available = int64_t{1} << 40};

  // --- What the run did ---
  std::vector<MetricPoint> metrics;
  std::vector<Progress> progress;
  std::vector<StagedCheckpoint> published;
  std::vector<std::string> waiting;
  std::vector<std::string> warnings;
  std::vector<int64_t> damaged;  // steps
  // Folders of what was published, newest first.
  std::vector<std::string> CheckpointFolders() const;
  std::string CheckpointFolder(int64_t step) const;
  std::vector<MetricPoint> Points(MetricKind kind) const;

  absl::StatusOr<std::unique_ptr<SequenceSource>> OpenTraining(int64_t cursor) override;
  absl::StatusOr<std::unique_ptr<SequenceSource>> OpenHeldOut() override;
  absl::StatusOr<std::string> LoadAttentionWeights() override;
  void ReportMetrics(const MetricPoint& point) override { metrics.push_back(point); }
  void ReportProgress(const Progress& p) override { progress.push_back(p); }
  void ReportWaiting(absl::string_view condition) override;
  void ReportWarning(absl::string_view message) override;
  void ReportDamagedCheckpoint(int64_t step, absl::string_view why) override;
  std::string staging_folder() override { return staging; }
  absl::StatusOr<std::string> PublishCheckpoint(const StagedCheckpoint& checkpoint) override;
  absl::StatusOr<std::string> FetchCheckpoint(const std::string& folder) override;
  std::string rollbacks_file() override { return JoinPath(folder_, "rollbacks.json"); }
  absl::Status KeepRollbacks() override { return on_keep_rollbacks(); }
  StopRequest stop_requested() override { return on_poll(); }
  absl::StatusOr<MemoryUse> memory_use() override { return memory; }
  absl::Time Now() override { return absl::UnixEpoch() + uptime_; }
  absl::Duration Uptime() override { return uptime_ += absl::Milliseconds(1); }
  void Sleep(absl::Duration duration) override;
  FileSystem& file_system() override { return fs_; }

 private:
  const SyntheticSet& set_;
  const uint64_t seed_;
  const std::string folder_;
  PosixFileSystem fs_;
  absl::Duration uptime_;
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_TESTING_FAKE_HOST_H_

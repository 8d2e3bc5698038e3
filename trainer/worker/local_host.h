// A run's world without a server: a sealed set on this machine, checkpoints renamed into an output
// folder and kept as lorsad would keep them (job_spec/retention.h; nothing is pinned), reports as
// log lines and as one JSON line each in metrics.jsonl. A resumed run reports the steps after its
// checkpoint again: the later line of a step counts.
#ifndef LORSA_TRAINER_WORKER_LOCAL_HOST_H_
#define LORSA_TRAINER_WORKER_LOCAL_HOST_H_

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "activation_store/activation_set.h"
#include "activation_store/reader_pool.h"
#include "activation_store/sequence_stream.h"
#include "base/file_system.h"
#include "base/folder_lock.h"
#include "base/monotonic_clock.h"
#include "trainer/config/train_config.h"
#include "trainer/train/run_host.h"

namespace lorsa::worker {

class LocalHost final : public trainer::RunHost {
 public:
  // Makes `output_folder` with checkpoints/ and staging/ in it, and holds a lock on it:
  // FAILED_PRECONDITION if another run has it. `fs` and `config` outlive the host. `stop` is set
  // from outside (a signal) and makes the run checkpoint and end.
  static absl::StatusOr<std::unique_ptr<LocalHost>> Create(
      FileSystem& fs, std::shared_ptr<const store::ActivationSet> set,
      const trainer::TrainConfig& config, const std::string& output_folder,
      const std::atomic<bool>& stop);

  // Published checkpoints, newest first.
  absl::StatusOr<std::vector<std::string>> CheckpointFolders();

  absl::StatusOr<std::unique_ptr<trainer::SequenceSource>> OpenTraining(int64_t cursor) override;
  absl::StatusOr<std::unique_ptr<trainer::SequenceSource>> OpenHeldOut() override;
  absl::StatusOr<std::string> LoadAttentionWeights() override;
  void ReportMetrics(const trainer::MetricPoint& point) override;
  void ReportProgress(const trainer::Progress& progress) override;
  void ReportWaiting(absl::string_view condition) override;
  void ReportWarning(absl::string_view message) override;
  void ReportDamagedCheckpoint(int64_t step, absl::string_view why) override;
  std::string staging_folder() override { return JoinPath(output_folder_, "staging"); }
  absl::StatusOr<std::string> PublishCheckpoint(
      const trainer::StagedCheckpoint& checkpoint) override;
  std::string rollbacks_file() override { return JoinPath(output_folder_, "rollbacks.json"); }
  trainer::StopRequest stop_requested() override;
  absl::StatusOr<MemoryUse> memory_use() override { return ReadMemoryUse(); }
  absl::Time Now() override { return absl::Now(); }
  absl::Duration Uptime() override { return MonotonicNow(); }
  void Sleep(absl::Duration duration) override;
  FileSystem& file_system() override { return fs_; }

 private:
  LocalHost(FileSystem& fs, std::shared_ptr<const store::ActivationSet> set,
            const trainer::TrainConfig& config, std::string output_folder,
            std::unique_ptr<FolderLock> lock, std::unique_ptr<store::ReaderPool> readers,
            const std::atomic<bool>& stop);
  absl::Status ApplyRetention();
  absl::StatusOr<std::unique_ptr<trainer::SequenceSource>> Open(store::Subset subset,
                                                                int64_t cursor);
  std::string CheckpointsFolder() const { return JoinPath(output_folder_, "checkpoints"); }

  FileSystem& fs_;
  const std::shared_ptr<const store::ActivationSet> set_;
  const trainer::TrainConfig& config_;
  const std::string output_folder_;
  const std::unique_ptr<FolderLock> lock_;
  const std::unique_ptr<store::ReaderPool> readers_;  // of the streams; they end before the host
  const std::atomic<bool>& stop_;
  std::ofstream metrics_;
  absl::Duration last_progress_ = -absl::InfiniteDuration();
};

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_LOCAL_HOST_H_

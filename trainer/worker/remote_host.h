// A run's world when lorsad is on the other side: data by StreamSequences, reports and checkpoints
// through the session, and files, where the disk is not shared, by FileTransfer.
#ifndef LORSA_TRAINER_WORKER_REMOTE_HOST_H_
#define LORSA_TRAINER_WORKER_REMOTE_HOST_H_

#include <atomic>
#include <memory>
#include <string>

#include "base/file_system.h"
#include "base/monotonic_clock.h"
#include "lorsa/v1/worker_service.pb.h"
#include "trainer/train/run_host.h"
#include "trainer/worker/attempt_folder.h"
#include "trainer/worker/file_transfer.h"
#include "trainer/worker/server_channel.h"
#include "trainer/worker/server_session.h"

namespace lorsa::worker {

class RemoteHost final : public trainer::RunHost {
 public:
  // All references outlive the host. `stop` is set from outside (a signal) and counts as a drain.
  // `folder` is that of an attempt that does not share the server's disk; null if it does.
  RemoteHost(FileSystem& fs, ServerChannel& channel, ServerSession& session, v1::Welcome welcome,
             const AttemptFolder* folder, const std::atomic<bool>& stop);

  absl::StatusOr<std::unique_ptr<trainer::SequenceSource>> OpenTraining(int64_t cursor) override;
  absl::StatusOr<std::unique_ptr<trainer::SequenceSource>> OpenHeldOut() override;
  absl::StatusOr<std::string> LoadAttentionWeights() override;

  void ReportMetrics(const trainer::MetricPoint& point) override;
  void ReportProgress(const trainer::Progress& progress) override;
  void ReportWaiting(absl::string_view condition) override;
  void ReportWarning(absl::string_view message) override;
  void ReportDamagedCheckpoint(int64_t step, absl::string_view why) override;

  std::string staging_folder() override;
  absl::StatusOr<std::string> PublishCheckpoint(
      const trainer::StagedCheckpoint& checkpoint) override;
  absl::StatusOr<std::string> FetchCheckpoint(const std::string& folder) override;
  std::string rollbacks_file() override;
  absl::Status KeepRollbacks() override;

  // A session that ended counts as kCancel: nothing of this attempt can be published any more.
  trainer::StopRequest stop_requested() override;

  absl::StatusOr<MemoryUse> memory_use() override { return ReadMemoryUse(); }
  absl::Time Now() override { return absl::Now(); }
  absl::Duration Uptime() override { return MonotonicNow(); }
  void Sleep(absl::Duration duration) override;
  FileSystem& file_system() override { return fs_; }

 private:
  void ReportFetched(int64_t percent);
  absl::Status FetchAttentionWeights(const std::string& path);
  std::unique_ptr<trainer::SequenceSource> Open(v1::SequenceSubset subset, int64_t cursor,
                                                int64_t end);

  FileSystem& fs_;
  ServerChannel& channel_;
  ServerSession& session_;
  const v1::Welcome welcome_;
  const AttemptFolder* const folder_;
  const std::atomic<bool>& stop_;
  trainer::Progress progress_;  // the newest
  FileTransfer transfer_;       // idle if the disk is shared
};

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_REMOTE_HOST_H_

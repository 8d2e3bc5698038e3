// The numbers are those of the protocol in checkpoint_publisher.h.
#include "server/jobs/checkpoint_publisher.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_files.h"

namespace lorsa::server {
namespace {

// sha256 of the checkpoint's manifest; empty if it lists none.
std::string ManifestSha256(const v1::Checkpoint& checkpoint) {
  for (const v1::CheckpointFile& file : checkpoint.files()) {
    if (file.name() == kManifestFile) return file.sha256();
  }
  return "";
}

}  // namespace

absl::Status CheckpointPublisher::Publish(const AttemptKey& attempt,
                                          const v1::CheckpointStaged& staged,
                                          int keep_checkpoints) {
  if (staged.step() < 0 || staged.folder() != CheckpointId(staged.step())) {
    return absl::InvalidArgumentError("a staged folder must be named for its step: step-000001000");
  }
  absl::MutexLock lock(&mu_);
  if (PublishedStepHolds(attempt.job_id, staged.step())) {  // 1
    return env_.fs.RemoveAll(
        JoinPath(env_.layout.StagingFolder(attempt.job_id, attempt.attempt), staged.folder()));
  }
  LORSA_ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint, VerifyStaged(attempt, staged));  // 2
  LORSA_RETURN_IF_ERROR(MoveIntoPlace(attempt, staged.step()));                            // 3
  const absl::Status stored =
      env_.catalog.PutCheckpoint(attempt, checkpoint, staged.scheduled(), env_.now());  // 4
  if (absl::IsAborted(stored)) MoveToTrash(attempt.job_id, staged.step()).IgnoreError();
  LORSA_RETURN_IF_ERROR(stored);
  env_.watchers.Notify(attempt.job_id, kJobEvent);
  // 5 is housekeeping: the checkpoint is published whatever comes of it.
  if (absl::Status kept = ApplyRetention(attempt.job_id, keep_checkpoints); !kept.ok()) {
    spdlog::warn("event=retention_failed job={} attempt={} error=\"{}\"", attempt.job_id,
                 attempt.attempt, kept.ToString());
  }
  return absl::OkStatus();
}

bool CheckpointPublisher::PublishedStepHolds(const std::string& job_id, int64_t step) const {
  const absl::StatusOr<v1::Checkpoint> published = env_.catalog.GetCheckpoint(job_id, step);
  if (!published.ok()) return false;
  const absl::Status status =
      VerifyCheckpointFiles(env_.fs, env_.layout.CheckpointFolder(job_id, step),
                            ManifestSha256(*published))
          .status();
  if (!status.ok()) {
    spdlog::warn("event=checkpoint_damaged job={} step={} error=\"{}\"", job_id, step,
                 status.ToString());
  }
  return status.ok();
}

absl::StatusOr<v1::Checkpoint> CheckpointPublisher::VerifyStaged(
    const AttemptKey& attempt, const v1::CheckpointStaged& staged) const {
  const std::string staged_folder =
      JoinPath(env_.layout.StagingFolder(attempt.job_id, attempt.attempt), staged.folder());
  LORSA_ASSIGN_OR_RETURN(const bool is_staged, env_.fs.Exists(staged_folder));
  const std::string folder =
      is_staged ? staged_folder : env_.layout.CheckpointFolder(attempt.job_id, staged.step());
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::CheckpointFile> files,
                         VerifyCheckpointFiles(env_.fs, folder, staged.manifest_sha256()));
  v1::Checkpoint checkpoint;
  checkpoint.set_step(staged.step());
  checkpoint.set_tokens(staged.tokens());
  checkpoint.mutable_files()->Assign(files.begin(), files.end());
  if (staged.has_fvu()) checkpoint.set_fvu(staged.fvu());
  return checkpoint;
}

absl::Status CheckpointPublisher::MoveIntoPlace(const AttemptKey& attempt, int64_t step) {
  const std::string staging = env_.layout.StagingFolder(attempt.job_id, attempt.attempt);
  const std::string staged_folder = JoinPath(staging, CheckpointId(step));
  LORSA_ASSIGN_OR_RETURN(const bool is_staged, env_.fs.Exists(staged_folder));
  if (!is_staged) return absl::OkStatus();  // In place since an earlier try.
  LORSA_RETURN_IF_ERROR(MoveToTrash(attempt.job_id, step));
  LORSA_RETURN_IF_ERROR(
      env_.fs.Rename(staged_folder, env_.layout.CheckpointFolder(attempt.job_id, step)));
  LORSA_RETURN_IF_ERROR(env_.fs.SyncDirectory(env_.layout.CheckpointsFolder(attempt.job_id)));
  return env_.fs.SyncDirectory(staging);
}

absl::Status CheckpointPublisher::ApplyRetention(const std::string& job_id, int keep_checkpoints) {
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> all,
                         env_.catalog.ListCheckpoints(job_id));
  const size_t newest = std::min(all.size(), static_cast<size_t>(std::max(keep_checkpoints, 1)));
  for (size_t i = 0; i < all.size() - newest; ++i) {
    if (all[i].best()) continue;
    LORSA_RETURN_IF_ERROR(env_.catalog.DeleteCheckpoint(job_id, all[i].step()));
    LORSA_RETURN_IF_ERROR(MoveToTrash(job_id, all[i].step()));
  }
  return env_.fs.RemoveAll(env_.layout.TrashFolder(job_id));
}

absl::Status CheckpointPublisher::MoveToTrash(const std::string& job_id, int64_t step) {
  const std::string folder = env_.layout.CheckpointFolder(job_id, step);
  const std::string trash = env_.layout.TrashFolder(job_id);
  const std::string trashed = JoinPath(trash, CheckpointId(step));
  LORSA_ASSIGN_OR_RETURN(const bool exists, env_.fs.Exists(folder));
  if (!exists) return absl::OkStatus();
  LORSA_RETURN_IF_ERROR(env_.fs.CreateDirectories(trash));
  LORSA_RETURN_IF_ERROR(env_.fs.RemoveAll(trashed));
  LORSA_RETURN_IF_ERROR(env_.fs.Rename(folder, trashed));
  return env_.fs.SyncDirectory(env_.layout.CheckpointsFolder(job_id));
}

absl::StatusOr<std::vector<std::string>> CheckpointPublisher::PublishedFolders(
    const std::string& job_id) const {
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> all,
                         env_.catalog.ListCheckpoints(job_id));
  std::vector<std::string> folders;
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    folders.push_back(env_.layout.CheckpointFolder(job_id, it->step()));
  }
  return folders;
}

}  // namespace lorsa::server

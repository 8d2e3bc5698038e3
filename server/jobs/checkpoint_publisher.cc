// The numbers are those of the protocol in checkpoint_publisher.h.
#include "server/jobs/checkpoint_publisher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_files.h"
#include "server/jobs/job_requests.h"
#include "server/jobs/lost_and_found.h"
#include "server/model/job_state.h"

namespace lorsa::server {
namespace {

// An error that the worker is told is one that may pass, unless it is damage.
absl::Status RetriableUnlessDamage(const absl::Status& status) {
  if (status.ok() || IsDamage(status) || absl::IsResourceExhausted(status)) return status;
  return absl::UnavailableError(status.message());
}

RetainedCheckpoint ForRetention(const v1::Checkpoint& checkpoint) {
  RetainedCheckpoint retained{.step = checkpoint.step(),
                              .tokens = checkpoint.tokens(),
                              .scheduled = checkpoint.scheduled(),
                              .pinned = checkpoint.pinned()};
  if (checkpoint.has_fvu()) retained.fvu = checkpoint.fvu();
  return retained;
}

}  // namespace

absl::Status CheckpointPublisher::Publish(const AttemptKey& attempt,
                                          const v1::CheckpointStaged& staged,
                                          const RetentionPolicy& retention) {
  if (staged.step() < 0 || staged.folder() != CheckpointId(staged.step())) {
    return absl::InvalidArgumentError("a staged folder must be named for its step: step-000001000");
  }
  const LockedJob job(locks_, attempt.job_id);
  LORSA_RETURN_IF_ERROR(CheckCurrent(attempt));                                          // 1
  LORSA_ASSIGN_OR_RETURN(const bool holds, PublishedStepHolds(attempt.job_id, staged));  // 2
  if (holds) {
    LORSA_RETURN_IF_ERROR(env_.fs.RemoveAll(
        JoinPath(env_.layout.StagingFolder(attempt.job_id, attempt.attempt), staged.folder())));
    KeepHouse(job, attempt, staged.step(), retention);  // 6
    return absl::OkStatus();
  }
  LORSA_ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint, VerifyStaged(attempt, staged));  // 3
  LORSA_RETURN_IF_ERROR(CheckCurrent(attempt));                                            // 1
  LORSA_RETURN_IF_ERROR(MoveIntoPlace(job, attempt, staged.step()));                       // 4
  const absl::Status stored =
      env_.catalog.PutCheckpoint(attempt, checkpoint, staged.scheduled(), env_.now());  // 5
  if (!stored.ok()) {
    TakeBack(job, attempt, checkpoint, stored).IgnoreError();
    return stored;
  }
  env_.watchers.Notify(attempt.job_id, kJobEvent);
  KeepHouse(job, attempt, staged.step(), retention);  // 6
  return absl::OkStatus();
}

void CheckpointPublisher::KeepHouse(const LockedJob& job, const AttemptKey& attempt,
                                    int64_t published_step, const RetentionPolicy& retention) {
  absl::Status kept = ApplyRetention(job, retention);
  if (kept.ok()) kept = Sweep(job, published_step);
  if (kept.ok()) return;
  spdlog::warn("event=retention_failed job={} attempt={} error=\"{}\"", attempt.job_id,
               attempt.attempt, kept.ToString());
}

void CheckpointPublisher::Reconcile(const std::string& job_id) {
  const LockedJob job(locks_, job_id);
  const absl::Status swept = Sweep(job, /*published_step=*/std::nullopt);
  if (swept.ok() || absl::IsNotFound(swept)) return;  // It may never have begun.
  spdlog::warn("event=checkpoints_not_reconciled job={} error=\"{}\"", job_id, swept.ToString());
}

absl::Status CheckpointPublisher::CheckCurrent(const AttemptKey& attempt) const {
  LORSA_ASSIGN_OR_RETURN(const JobRecord job, env_.catalog.GetJob(attempt.job_id));
  if (job.job.attempt() == attempt.attempt && HasWorker(job.job.state())) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("attempt ", attempt.attempt, " of job ", attempt.job_id, " is over"));
}

absl::StatusOr<bool> CheckpointPublisher::PublishedStepHolds(
    const std::string& job_id, const v1::CheckpointStaged& staged) const {
  const absl::StatusOr<v1::Checkpoint> published =
      env_.catalog.GetCheckpoint(job_id, staged.step());
  if (absl::IsNotFound(published.status())) return false;
  LORSA_RETURN_IF_ERROR(published.status());
  if (staged.has_fvu() && !published->has_fvu()) return false;
  const absl::Status status =
      VerifyCheckpointFiles(env_.fs, env_.layout.CheckpointFolder(job_id, staged.step()),
                            ManifestSha256(*published))
          .status();
  if (status.ok()) return true;
  if (!IsDamage(status)) return RetriableUnlessDamage(status);
  spdlog::warn("event=checkpoint_damaged job={} step={} error=\"{}\"", job_id, staged.step(),
               status.ToString());
  return false;
}

absl::StatusOr<v1::Checkpoint> CheckpointPublisher::VerifyStaged(
    const AttemptKey& attempt, const v1::CheckpointStaged& staged) const {
  const std::string staged_folder =
      JoinPath(env_.layout.StagingFolder(attempt.job_id, attempt.attempt), staged.folder());
  LORSA_ASSIGN_OR_RETURN(const bool is_staged, env_.fs.Exists(staged_folder));
  const std::string folder =
      is_staged ? staged_folder : env_.layout.CheckpointFolder(attempt.job_id, staged.step());
  const absl::StatusOr<std::vector<v1::CheckpointFile>> files =
      VerifyCheckpointFiles(env_.fs, folder, staged.manifest_sha256());
  LORSA_RETURN_IF_ERROR(RetriableUnlessDamage(files.status()));
  v1::Checkpoint checkpoint;
  checkpoint.set_step(staged.step());
  checkpoint.set_tokens(staged.tokens());
  checkpoint.mutable_files()->Assign(files->begin(), files->end());
  if (staged.has_fvu()) checkpoint.set_fvu(staged.fvu());
  return checkpoint;
}

absl::Status CheckpointPublisher::MoveIntoPlace(const LockedJob& job, const AttemptKey& attempt,
                                                int64_t step) {
  const std::string staging = env_.layout.StagingFolder(attempt.job_id, attempt.attempt);
  const std::string staged_folder = JoinPath(staging, CheckpointId(step));
  LORSA_ASSIGN_OR_RETURN(const bool is_staged, env_.fs.Exists(staged_folder));
  if (is_staged) {
    LORSA_RETURN_IF_ERROR(MoveToTrash(job, CheckpointId(step), CheckpointId(step)));
    const absl::Status renamed =
        env_.fs.Rename(staged_folder, env_.layout.CheckpointFolder(attempt.job_id, step));
    if (!renamed.ok()) {
      RestoreFromTrash(job, step).IgnoreError();
      return renamed;
    }
  }
  // Otherwise in place since an earlier try, which may have ended before this.
  LORSA_RETURN_IF_ERROR(env_.fs.SyncDirectory(env_.layout.CheckpointsFolder(attempt.job_id)));
  return env_.fs.SyncDirectory(staging);
}

absl::Status CheckpointPublisher::TakeBack(const LockedJob& job, const AttemptKey& attempt,
                                           const v1::Checkpoint& checkpoint,
                                           const absl::Status& refusal) {
  const std::string id = CheckpointId(checkpoint.step());
  if (absl::IsAborted(refusal)) {
    // Under another name, since the trash has what it displaced under the step's.
    LORSA_RETURN_IF_ERROR(MoveToTrash(job, id, absl::StrCat(id, "-refused")));
    return RestoreFromTrash(job, checkpoint.step());
  }
  // An error at its end may leave a transaction done.
  const auto known = env_.catalog.GetCheckpoint(job.id(), checkpoint.step());
  if (!known.ok() || ManifestSha256(*known) == ManifestSha256(checkpoint)) return known.status();
  LORSA_RETURN_IF_ERROR(
      env_.fs.Rename(JoinPath(env_.layout.CheckpointsFolder(job.id()), id),
                     JoinPath(env_.layout.StagingFolder(job.id(), attempt.attempt), id)));
  return RestoreFromTrash(job, checkpoint.step());
}

absl::Status CheckpointPublisher::ApplyRetention(const LockedJob& job,
                                                 const RetentionPolicy& retention) {
  const auto rule = [&](const std::vector<v1::Checkpoint>& all) {
    std::vector<RetainedCheckpoint> checkpoints;
    for (const v1::Checkpoint& checkpoint : all) {
      if (checkpoint.damage().empty()) checkpoints.push_back(ForRetention(checkpoint));
    }
    return CheckpointsToDelete(checkpoints, retention);
  };
  LORSA_ASSIGN_OR_RETURN(const std::vector<int64_t> deleted,
                         env_.catalog.DeleteCheckpoints(job.id(), rule));
  for (const int64_t step : deleted) {
    LORSA_RETURN_IF_ERROR(MoveToTrash(job, CheckpointId(step), CheckpointId(step)));
  }
  return absl::OkStatus();
}

absl::Status CheckpointPublisher::Sweep(const LockedJob& job,
                                        std::optional<int64_t> published_step) {
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> known,
                         env_.catalog.ListCheckpoints(job.id()));
  std::set<std::string> names;
  if (published_step.has_value()) names.insert(CheckpointId(*published_step));
  for (const v1::Checkpoint& checkpoint : known) {
    const std::string name = CheckpointId(checkpoint.step());
    if (!names.insert(name).second) continue;
    const bool displaced =
        IsFolderOf(env_.fs, JoinPath(env_.layout.TrashFolder(job.id()), name), checkpoint) &&
        !IsFolderOf(env_.fs, env_.layout.CheckpointFolder(job.id(), checkpoint.step()), checkpoint);
    if (!displaced) continue;
    LORSA_RETURN_IF_ERROR(SetAside(env_, env_.layout.CheckpointFolder(job.id(), checkpoint.step()),
                                   "its publication was cut off"));
    LORSA_RETURN_IF_ERROR(RestoreFromTrash(job, checkpoint.step()));
  }
  LORSA_ASSIGN_OR_RETURN(const std::set<int64_t> removed,
                         env_.catalog.RemovedCheckpoints(job.id()));
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> found,
                         env_.fs.List(env_.layout.CheckpointsFolder(job.id())));
  for (const std::string& name : found) {
    if (names.contains(name)) continue;
    const std::optional<int64_t> step = StepOfCheckpointId(name);
    const bool deleted = step.has_value() && removed.contains(*step);
    LORSA_RETURN_IF_ERROR(
        deleted ? MoveToTrash(job, name, name)
                : SetAside(env_, JoinPath(env_.layout.CheckpointsFolder(job.id()), name),
                           "the catalog does not know it"));
  }
  LORSA_RETURN_IF_ERROR(env_.fs.RemoveAll(env_.layout.TrashFolder(job.id())));
  return removed.empty() ? absl::OkStatus() : env_.catalog.ForgetRemovedCheckpoints(job.id());
}

absl::Status CheckpointPublisher::MoveToTrash(const LockedJob& job, const std::string& name,
                                              const std::string& trashed_as) {
  const std::string folder = JoinPath(env_.layout.CheckpointsFolder(job.id()), name);
  const std::string trash = env_.layout.TrashFolder(job.id());
  const std::string trashed = JoinPath(trash, trashed_as);
  LORSA_ASSIGN_OR_RETURN(const bool exists, env_.fs.Exists(folder));
  if (!exists) return absl::OkStatus();
  LORSA_RETURN_IF_ERROR(env_.fs.CreateDirectories(trash));
  LORSA_RETURN_IF_ERROR(env_.fs.RemoveAll(trashed));
  LORSA_RETURN_IF_ERROR(env_.fs.Rename(folder, trashed));
  return env_.fs.SyncDirectory(env_.layout.CheckpointsFolder(job.id()));
}

absl::Status CheckpointPublisher::RestoreFromTrash(const LockedJob& job, int64_t step) {
  const std::string trashed = JoinPath(env_.layout.TrashFolder(job.id()), CheckpointId(step));
  LORSA_ASSIGN_OR_RETURN(const bool exists, env_.fs.Exists(trashed));
  if (!exists) return absl::OkStatus();
  LORSA_RETURN_IF_ERROR(env_.fs.Rename(trashed, env_.layout.CheckpointFolder(job.id(), step)));
  return env_.fs.SyncDirectory(env_.layout.CheckpointsFolder(job.id()));
}

absl::StatusOr<bool> CheckpointPublisher::RemoveIfDamaged(const AttemptKey& attempt, int64_t step) {
  const LockedJob job(locks_, attempt.job_id);
  LORSA_RETURN_IF_ERROR(CheckCurrent(attempt));
  const absl::StatusOr<v1::Checkpoint> published = env_.catalog.GetCheckpoint(attempt.job_id, step);
  if (absl::IsNotFound(published.status())) return false;
  LORSA_RETURN_IF_ERROR(published.status());
  const std::string folder = env_.layout.CheckpointFolder(attempt.job_id, step);
  const absl::Status status =
      VerifyCheckpointFiles(env_.fs, folder, ManifestSha256(*published)).status();
  if (!IsDamage(status)) return status.ok() ? absl::StatusOr<bool>(false) : status;
  spdlog::warn("event=checkpoint_damaged job={} attempt={} step={} error=\"{}\"", attempt.job_id,
               attempt.attempt, step, status.ToString());
  LORSA_RETURN_IF_ERROR(
      env_.catalog.PutVerdict(attempt.job_id, *published, status.message(), env_.now()).status());
  const absl::Status deleted =
      env_.catalog.DeleteCheckpoint(attempt.job_id, step, CheckNotPinned, /*keep_files=*/true);
  if (absl::IsFailedPrecondition(deleted)) return true;
  LORSA_RETURN_IF_ERROR(deleted);
  const std::string damaged = env_.layout.DamagedFolder(attempt.job_id);
  const std::string target = JoinPath(damaged, CheckpointId(step));
  LORSA_ASSIGN_OR_RETURN(const bool exists, env_.fs.Exists(folder));
  if (!exists) return true;
  LORSA_RETURN_IF_ERROR(env_.fs.CreateDirectories(damaged));
  LORSA_RETURN_IF_ERROR(SetAside(env_, target, "another damaged one takes its place"));
  LORSA_RETURN_IF_ERROR(env_.fs.Rename(folder, target));
  LORSA_RETURN_IF_ERROR(env_.fs.SyncDirectory(env_.layout.CheckpointsFolder(attempt.job_id)));
  return true;
}

absl::Status CheckpointPublisher::Delete(const std::string& job_id, int64_t step) {
  const LockedJob job(locks_, job_id);
  LORSA_RETURN_IF_ERROR(env_.catalog.DeleteCheckpoint(job_id, step, CheckUnneeded));
  absl::Status removed = MoveToTrash(job, CheckpointId(step), CheckpointId(step));
  if (removed.ok()) {
    removed = env_.fs.RemoveAll(JoinPath(env_.layout.TrashFolder(job_id), CheckpointId(step)));
  }
  if (!removed.ok()) {
    spdlog::warn("event=checkpoint_files_not_removed job={} step={} error=\"{}\"", job_id, step,
                 removed.ToString());
  }
  env_.watchers.Notify(job_id, kJobEvent);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> CheckpointPublisher::PublishedFolders(
    const std::string& job_id) const {
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> all,
                         env_.catalog.ListCheckpoints(job_id));
  std::vector<std::string> folders;
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (!it->damage().empty()) continue;
    folders.push_back(env_.layout.CheckpointFolder(job_id, it->step()));
  }
  return folders;
}

}  // namespace lorsa::server

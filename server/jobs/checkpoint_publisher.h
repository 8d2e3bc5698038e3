// Turns a checkpoint that a worker staged into a published one.
//
// Protocol of a publication:
//   1. The attempt is current; looked at again before 4, since 3 takes long.
//   2. If the catalog knows a checkpoint of this step, its folder verifies, and it has its FVU or
//      the staged one has none either, that one is kept, the staged one is removed and 6 is next:
//      an attempt that runs a step again writes the same weights, and a request sent again, its
//      answer lost, finds its own. Only what is missing or differs is damage; a disk that cannot be
//      read just now is an error, and nothing moves.
//   3. The staged folder's manifest.json has the sha256 that the worker named, and every file that
//      it lists is there, regular, with the size and sha256 listed, and no other. The worker has
//      fsynced them. If there is no staged folder, the one in place is held to the same: an earlier
//      try may have come as far as 4.
//   4. What stands in the way is moved to the trash; the staged folder is renamed into
//      checkpoints/; both parent folders are fsynced, also if an earlier try renamed it.
//   5. The catalog stores the checkpoint and its event, if the attempt is still current. If it is
//      not, the folder goes to the trash, and what it displaced comes back from there. If the
//      catalog cannot be written and knows another checkpoint of this step, the folder goes back to
//      where it was staged: what is listed can be read, and the worker asks again.
//   6. Retention: those that the rule (job_spec/retention.h) does not keep are deleted from the
//      catalog, then moved to the trash. The known damaged are neither counted nor deleted: they
//      stand in for no other, and people may yet restore them. What the catalog knows and only the
//      trash has comes back. The catalog keeps a note of what was deleted from it: what it has such
//      a note of is moved to the trash, anything else that it does not know to lost+found. The
//      trash is emptied, the notes are forgotten.
// A crash between 4 and 5 leaves a folder that the catalog does not know: the worker asks again and
// 3 finds it in place, the next start adopts it (data_adoption.h), or 6 of a later publication sets
// it aside and brings back what 4 displaced.
// A crash within 6 leaves folders that the next 6 deals with, or Reconcile, which is called when
// nothing can be on its way: when an attempt begins, and by a server that starts for the jobs that
// have no worker.
#ifndef LORSA_SERVER_JOBS_CHECKPOINT_PUBLISHER_H_
#define LORSA_SERVER_JOBS_CHECKPOINT_PUBLISHER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job_spec/retention.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"
#include "server/jobs/job_locks.h"

namespace lorsa::server {

// Thread-safe. Blocks on the disk, for as long as it takes to read a whole checkpoint, and on other
// calls for the same job.
class CheckpointPublisher {
 public:
  explicit CheckpointPublisher(const JobEnvironment& environment) : env_(environment) {}

  // INVALID_ARGUMENT, NOT_FOUND or DATA_LOSS, naming the file, if what is staged does not hold;
  // RESOURCE_EXHAUSTED or UNAVAILABLE for a disk that may recover; ABORTED for an attempt that is
  // no longer current.
  absl::Status Publish(const AttemptKey& attempt, const v1::CheckpointStaged& staged,
                       const RetentionPolicy& retention);

  // Looks at a published checkpoint that a worker could not use. Returns whether it is damaged;
  // then no worker is offered it again. A pinned one stays where it is, marked as damaged; any
  // other is taken off the list and its folder moved to damaged/, for people to look at.
  absl::StatusOr<bool> RemoveIfDamaged(const AttemptKey& attempt, int64_t step);

  // Removes a checkpoint and its files; what of them cannot be removed now, a later 6 does.
  // Errors as of CheckUnneeded (job_requests.h); NOT_FOUND if there is none.
  absl::Status Delete(const std::string& job_id, int64_t step);

  // Makes the job's folders those of the catalog's checkpoints, as 6 does; nothing of the job may
  // be on its way. Errors are logged: a later 6 or Reconcile tries again.
  void Reconcile(const std::string& job_id);

  // Folders of the job's published checkpoints, newest first, without those known to be damaged.
  absl::StatusOr<std::vector<std::string>> PublishedFolders(const std::string& job_id) const;

 private:
  absl::Status CheckCurrent(const AttemptKey& attempt) const;  // 1
  // 2. Whether the catalog's checkpoint of this step is there, whole, and as good as the staged.
  absl::StatusOr<bool> PublishedStepHolds(const std::string& job_id,
                                          const v1::CheckpointStaged& staged) const;
  // 3. The checkpoint with its files.
  absl::StatusOr<v1::Checkpoint> VerifyStaged(const AttemptKey& attempt,
                                              const v1::CheckpointStaged& staged) const;
  absl::Status MoveIntoPlace(const LockedJob& job, const AttemptKey& attempt, int64_t step);  // 4
  // 5. Undoes 4 after the catalog's `refusal`.
  absl::Status TakeBack(const LockedJob& job, const AttemptKey& attempt,
                        const v1::Checkpoint& checkpoint, const absl::Status& refusal);
  // 6. An error is logged: the checkpoint is published whatever comes of it.
  void KeepHouse(const LockedJob& job, const AttemptKey& attempt, int64_t published_step,
                 const RetentionPolicy& retention);
  // 6. What the rule does not keep goes to the trash.
  absl::Status ApplyRetention(const LockedJob& job, const RetentionPolicy& retention);
  // 6. Makes the folders those of the catalog's checkpoints, but for `published_step`, and empties
  // the trash.
  absl::Status Sweep(const LockedJob& job, std::optional<int64_t> published_step);
  // Moves a folder of checkpoints/ to trash/`trashed_as`. OK if there is none.
  absl::Status MoveToTrash(const LockedJob& job, const std::string& name,
                           const std::string& trashed_as);
  // OK if the trash has no folder of the step.
  absl::Status RestoreFromTrash(const LockedJob& job, int64_t step);

  const JobEnvironment env_;
  // Publications of one job look at and move its folders one at a time.
  JobLocks locks_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_CHECKPOINT_PUBLISHER_H_

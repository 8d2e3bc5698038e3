// Turns a checkpoint that a worker staged into a published one.
//
// Protocol of a publication:
//   1. The staged folder's manifest.json has the sha256 that the worker named, and every file that
//      it lists is there, regular, with the size and sha256 listed. The worker has fsynced them.
//   2. If a folder of this step stands published and verifies, it is kept (an attempt that runs a
//      step again writes the same weights) and 3 is left out.
//   3. What stands in the way is moved to the trash; the staged folder is renamed into
//      checkpoints/; both parent folders are fsynced.
//   4. The catalog stores the checkpoint and its event, if the attempt is still current. If it is
//      not, a folder renamed by 3 goes to the trash.
//   5. Retention: all but the newest keep_checkpoints and the best are deleted from the catalog,
//      then moved to the trash. The trash is emptied.
// A crash between 3 and 4 leaves a folder that the catalog does not know: 3 of the next publication
// of that step moves it away. A crash within 5 leaves trash for the next.
#ifndef LORSA_SERVER_JOBS_CHECKPOINT_PUBLISHER_H_
#define LORSA_SERVER_JOBS_CHECKPOINT_PUBLISHER_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"

namespace lorsa::server {

// Thread-safe; blocks on the disk.
class CheckpointPublisher {
 public:
  explicit CheckpointPublisher(const JobEnvironment& environment) : env_(environment) {}

  // INVALID_ARGUMENT or DATA_LOSS, naming the file, if what is staged does not hold;
  // RESOURCE_EXHAUSTED or UNAVAILABLE for a disk that may recover; ABORTED for an attempt that is
  // no longer current.
  absl::Status Publish(const AttemptKey& attempt, const v1::CheckpointStaged& staged,
                       int keep_checkpoints);

  // Folders of the job's published checkpoints, newest first.
  absl::StatusOr<std::vector<std::string>> PublishedFolders(const std::string& job_id) const;

 private:
  absl::Status MoveIntoPlace(const AttemptKey& attempt, const std::string& staged_folder,
                             int64_t step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status MoveToTrash(const std::string& job_id, const std::string& folder)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status ApplyRetention(const std::string& job_id, int keep_checkpoints)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const JobEnvironment env_;
  // Held from 2 on: publications move folders one at a time.
  absl::Mutex mu_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_CHECKPOINT_PUBLISHER_H_

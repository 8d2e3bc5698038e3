// Makes jobs, those that begin from a copy of another job's checkpoint among them: to go on from it
// (ForkJob) or with its weights alone (TrainingSpec.initial_checkpoint).
//
// Protocol of a job, or of the jobs of a sweep, with such copies:
//   1. The new ids are free. What lies in their folders is nobody's, whatever left it there, and is
//      set aside: a job inherits nothing.
//   2. Each file of the checkpoint that the catalog lists is hard-linked into the folder of the new
//      job: published files never change, so this is a copy, which takes no time or space and
//      outlives the other job. The folder and its parents are fsynced.
//   3. The linked manifest is the one that the catalog knows: the checkpoint was not removed or
//      published anew meanwhile.
//   4. The catalog stores the jobs, and the checkpoint that a fork goes on from, in one
//   transaction.
// A crash before 4 leaves folders that the catalog does not know, which the next start of the
// server, or 1, sets aside.
#ifndef LORSA_SERVER_JOBS_JOB_CREATOR_H_
#define LORSA_SERVER_JOBS_JOB_CREATOR_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"

namespace lorsa::server {

// Blocks on the catalog and the disk. One caller at a time, and nobody else creates a job
// meanwhile.
class JobCreator {
 public:
  explicit JobCreator(const JobEnvironment& environment) : env_(environment) {}

  // `first_checkpoint` and `initial_checkpoint` of a job are, if set, as the catalog has them.
  // Errors as of the catalog's method of the same name; NOT_FOUND if such a checkpoint is removed
  // meanwhile.
  absl::StatusOr<JobRecord> CreateJob(const NewJob& job);
  absl::StatusOr<v1::Sweep> CreateSweep(const NewSweep& sweep);

  // Stores an imported job whose one checkpoint is `folder`, which is moved into place. Errors as
  // of the catalog's method of the same name.
  absl::StatusOr<v1::Checkpoint> ImportCheckpoint(const NewJob& job,
                                                  const v1::Checkpoint& checkpoint,
                                                  const std::string& folder);

 private:
  // `store` after the jobs have their copies; if it fails they are removed.
  absl::Status WithCopies(absl::Span<const NewJob> jobs, absl::FunctionRef<absl::Status()> store);
  absl::Status Copy(const NewJob& job) const;                 // 2, 3
  absl::Status ClearFolder(const std::string& job_id) const;  // 1
  absl::StatusOr<v1::Checkpoint> MoveAndStore(const NewJob& job, const v1::Checkpoint& checkpoint,
                                              const std::string& folder) const;
  absl::Status SyncUpFrom(std::string folder) const;                                 // 2
  absl::Status Link(const v1::Checkpoint& checkpoint, const std::string& to) const;  // 2, 3

  const JobEnvironment env_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_CREATOR_H_

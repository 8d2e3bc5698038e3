// Makes jobs that begin from a copy of another job's checkpoint.
//
// Protocol of a fork:
//   1. The new id is free; what a fork of that id left that was cut off before 4 is removed.
//   2. Each file of the checkpoint that the catalog lists is hard-linked into checkpoints/ of the
//      new job: published files never change, so this is a copy, which takes no time or space and
//      outlives the other job. The folder and its parents are fsynced.
//   3. The linked manifest is the one that the catalog knows: the checkpoint was not removed or
//      published anew meanwhile.
//   4. The catalog stores the job and its checkpoint in one transaction.
// A crash before 4 leaves a folder without attempts that the catalog does not know, which the next
// start of the server removes.
#ifndef LORSA_SERVER_JOBS_JOB_FORKER_H_
#define LORSA_SERVER_JOBS_JOB_FORKER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"

namespace lorsa::server {

// Blocks on the catalog and the disk. One caller at a time, and nobody else creates a job
// meanwhile.
class JobForker {
 public:
  explicit JobForker(const JobEnvironment& environment) : env_(environment) {}

  // `job.first_checkpoint` is a checkpoint as the catalog has it, of the job `source_id`. Errors as
  // of Catalog::CreateJob; NOT_FOUND if the checkpoint is removed meanwhile.
  absl::StatusOr<JobRecord> Fork(const std::string& source_id, const NewJob& job);

  // Removes what forks left that were cut off. Errors are logged: nothing depends on it.
  void RemoveRemains();

 private:
  absl::StatusOr<JobRecord> LinkAndCreate(const std::string& source_id, const NewJob& job);
  absl::Status Link(const std::string& source_id, const NewJob& job);  // 1 to 3

  const JobEnvironment env_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_FORKER_H_

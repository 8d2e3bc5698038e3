// Removes jobs: those that clients deleted, and those that have outlived their ttl.
//
// Protocol of a removal:
//   1. The catalog marks the job (Catalog::DeleteJob): nobody sees it any more, its id stays taken.
//      A client's DeleteJob returns here.
//   2. Once no process of its newest attempt lives, its folder is removed and jobs/ fsynced.
//   3. Its rows are taken, in pieces. The id is free.
// After a crash at any point the mark still stands, or nothing has happened: the next Work goes on
// with 2, whatever is left of the folder.
#ifndef LORSA_SERVER_JOBS_JOB_REMOVER_H_
#define LORSA_SERVER_JOBS_JOB_REMOVER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"

namespace lorsa::server {

// Blocks on the catalog and the disk.
class JobRemover {
 public:
  explicit JobRemover(const JobEnvironment& environment) : env_(environment) {}

  // 1. Errors as of CheckDeletable. Thread-safe.
  absl::Status Delete(absl::string_view id, bool even_if_pinned);

  // Marks jobs that have outlived their ttl, and takes one step further with each that is marked.
  // True if there is more to do at once. One caller at a time.
  bool Work();

 private:
  absl::Status Mark(absl::string_view id, const JobCheck& check);
  void MarkExpired();
  // 2 and a piece of 3. True if all is done.
  absl::StatusOr<bool> Remove(const JobRecord& job);

  const JobEnvironment env_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_REMOVER_H_

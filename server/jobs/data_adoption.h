// Compares the data folder with the catalog when a server starts. The catalog may be older than the
// data: a backup that was restored in place, the copy that an upgrade left, a snapshot. The server
// then lists again what was published, and deletes nothing.
//
// Protocol, before the server accepts calls:
//   1. The catalog and the data folder each have a generation, which counts starts (4). A copy of a
//      catalog has 0 (catalog_backup.h), and `lorsad restore` raises the folder's. If the catalog's
//      generation is 0 or below the folder's, the catalog is older than the data. The server logs
//      this, drops the catalog's notes of deletions, and registers uploaded sets again
//      (ActivationService::AdoptUploads).
//   2. For each folder of jobs/ whose job the catalog does not know:
//      a. If it has a job.textproto (job_file.h), that job is created again. If the catalog has a
//         job of the same id with another create_time, that job was removed before the id was used
//         again: its rows are removed first.
//      b. If it has no such file, or the set of the job is gone, and it has attempts or the catalog
//         is older: an imported job is made of its newest checkpoint that verifies.
//      c. Otherwise the folder is set aside (lost_and_found.h): a creation that was cut off left
//      it. The folder of a job that the catalog is removing is left to JobRemover. If the catalog
//      is older, the folder is set aside unless its job.textproto shows that it is of that very
//      job.
//   3. For each job that has a folder, and if the catalog is older for each job that it knows:
//      a. A checkpoint without a row, or if the catalog is older with a row of another manifest, is
//         adopted if its manifest and all its files verify. Its step comes from its name, its
//         tokens and FVU from its state.json. It is not pinned, and counts as scheduled. One that
//         does not verify stays, and CheckpointPublisher::Reconcile sets it aside.
//      b. If the catalog is older: the trash is set aside, and a listed checkpoint without a folder
//         leaves the list, since retention removed it. A pinned one stays, and shows as damaged.
//      c. The newest attempt is the one of the highest number whose worker left a log. If the
//         catalog does not know it, it becomes the job's current attempt, with the token in its
//         bootstrap file: no number is used twice. If it left an outcome file, the job gets the
//         state that the outcome means. If not, the job is STARTING: a live worker connects again
//         within the silence timeout; a dead one is lost, and the job recovers from its newest
//         checkpoint. If the catalog is older, the outcome file of an attempt that it knows counts
//         in the same way.
//   4. If all went well, the generation is set above both, in the catalog, then in the folder.
// After a crash at any point the next start repeats what is left.
//
// If the catalog is older and something fails that may pass, such as a read without a descriptor or
// a write to a full disk, the start fails: what an older catalog says must not decide which files
// go. A job that damage keeps from being adopted is left as it is, and so is any job that fails if
// the catalog is not older. The next start tries again.
#ifndef LORSA_SERVER_JOBS_DATA_ADOPTION_H_
#define LORSA_SERVER_JOBS_DATA_ADOPTION_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "lorsa/v1/job.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_environment.h"

namespace lorsa::server {

// One thread; nobody else uses the catalog or the folder meanwhile.
class DataAdoption {
 public:
  // `adopt_sets` is called if the catalog is older than the data, before jobs are looked at. It
  // returns an error only for what may pass.
  DataAdoption(const JobEnvironment& environment, const JobOptions& options,
               absl::FunctionRef<absl::Status()> adopt_sets)
      : env_(environment), options_(options), adopt_sets_(adopt_sets) {}

  // The ids of jobs that could not be adopted: nothing of their folders may be moved or removed
  // before the next start. With an error, that holds for all folders, and the server must not
  // start.
  absl::StatusOr<std::set<std::string>> Run();

 private:
  absl::Status CompareGenerations();  // 1
  absl::Status PrepareOlderCatalog();
  // Those that have a folder and, if the catalog is older, those that it knows.
  absl::StatusOr<std::set<std::string>> IdsOfJobs() const;
  absl::StatusOr<std::set<std::string>> AdoptJobs();  // 2, 3; the ids of those that failed
  absl::Status AdoptFolder(const std::string& job_id);
  // 2. Whether the job's row is of another job than its file.
  absl::StatusOr<bool> IsOfAnotherJob(const std::string& job_id, const v1::Job& file) const;
  absl::Status PurgeRows(const std::string& job_id);
  absl::Status TendDeletedJob(const std::string& job_id, const std::optional<v1::Job>& file);
  absl::StatusOr<bool> MakeAgain(const std::string& job_id, const std::optional<v1::Job>& file);
  absl::StatusOr<bool> MakeImported(const std::string& job_id, absl::Time created);  // 2b
  // 3.
  absl::Status AdoptInto(const std::string& job_id);
  absl::Status AdoptCheckpoints(const std::string& job_id);
  absl::Status AdoptCheckpoint(const std::string& job_id, int64_t step);
  absl::Status DropCheckpoint(const std::string& job_id, const v1::Checkpoint& checkpoint);
  absl::Status AdoptAttempt(const std::string& job_id);
  // Of the steps that have a folder, in order.
  absl::StatusOr<std::vector<int64_t>> StepsInFolder(const std::string& job_id) const;
  absl::StatusOr<int> NewestAttempt(const std::string& job_id) const;
  // Empty if the attempt has no bootstrap file that parses.
  absl::StatusOr<std::string> TokenSha256(const AttemptKey& attempt) const;
  absl::Status CountStart();  // 4

  const JobEnvironment& env_;
  const JobOptions& options_;
  const absl::FunctionRef<absl::Status()> adopt_sets_;
  bool older_ = false;                      // the catalog, than the data
  std::map<std::string, v1::Job> deleted_;  // jobs that the catalog is removing
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_DATA_ADOPTION_H_

// What restoring a catalog means for the data that lies beside it, to be said before it happens.
#ifndef LORSA_SERVER_JOBS_RESTORE_PLAN_H_
#define LORSA_SERVER_JOBS_RESTORE_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "server/model/data_layout.h"

namespace lorsa::server {

struct RestorePlan {
  // Paths of folders of jobs and checkpoints that the backup does not know. The next start adopts
  // them (data_adoption.h).
  std::vector<std::string> unknown;
  // Paths of folders of checkpoints that the backup knows and that are not there.
  std::vector<std::string> missing;

  // For people, in lines; `set_aside`: what is unknown is moved to lost+found.
  std::string Describe(bool set_aside) const;
};

// NOT_FOUND or FAILED_PRECONDITION if `backup` is no catalog.
absl::StatusOr<RestorePlan> PlanRestore(FileSystem& fs, const std::string& backup,
                                        const DataLayout& layout);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_RESTORE_PLAN_H_

// Takes the rows of a job that is on its way out (JobTable's MarkDeleted).
#ifndef LORSA_SERVER_CATALOG_JOB_REMOVAL_H_
#define LORSA_SERVER_CATALOG_JOB_REMOVAL_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/catalog/transaction.h"

namespace lorsa::server {

// Removes a bounded number of rows, the job's own last, and its sweep's if it was the last of that;
// true once that is done. A job that is
// not there is gone; one that is not on its way out is left alone and counts as gone.
absl::StatusOr<bool> RemoveSomeRows(WriteTransaction& transaction, absl::string_view id);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_CATALOG_JOB_REMOVAL_H_

// outcome.textproto of an attempt's folder, left by its worker when it ended.
#ifndef LORSA_SERVER_JOBS_OUTCOME_FILE_H_
#define LORSA_SERVER_JOBS_OUTCOME_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "lorsa/v1/worker_service.pb.h"

namespace lorsa::server {

// NOT_FOUND if there is none, INVALID_ARGUMENT or RESOURCE_EXHAUSTED if it is not of that form.
absl::StatusOr<v1::WorkerOutcome> ReadOutcome(FileSystem& fs, const std::string& path);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_OUTCOME_FILE_H_

// Names of jobs in requests.
#ifndef LORSA_SERVER_JOBS_JOB_NAME_H_
#define LORSA_SERVER_JOBS_JOB_NAME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorsa::server {

// "demo" from "jobs/demo"; INVALID_ARGUMENT naming `field` of the request otherwise.
absl::StatusOr<std::string> JobIdFrom(const std::string& name, absl::string_view field);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_NAME_H_

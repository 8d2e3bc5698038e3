// What a worker inherits of the server's environment.
#ifndef LORSA_SERVER_JOBS_WORKER_ENVIRONMENT_H_
#define LORSA_SERVER_JOBS_WORKER_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace lorsa::server {

// Whether a worker started on this machine gets the variable `name`. It gets those that say where
// programs, libraries and temporary files are and how it computes. It gets none that would lead it
// to another machine: proxies, and what batch systems and MPI launchers leave for their own
// children. docs/operations.md has the list.
bool IsForWorkers(absl::string_view name);

// The variables of `environment` (NAME=VALUE, ended by null) that workers get.
std::vector<std::string> WorkerEnvironment(char** environment);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_WORKER_ENVIRONMENT_H_

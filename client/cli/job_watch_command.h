// `lorsa job watch`, also what `lorsa job submit --watch` does in the end.
#ifndef LORSA_CLIENT_CLI_JOB_WATCH_COMMAND_H_
#define LORSA_CLIENT_CLI_JOB_WATCH_COMMAND_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/session.h"

namespace lorsa::cli {

// Follows the job `name` (jobs/{job}) from the event after `after_revision` on until it ends; with
// --json, prints each message of the watch. The exit code says how the job ended; kInterrupted if
// Ctrl-C came first, which does nothing to the job.
absl::StatusOr<int> WatchJob(Session& session, const std::string& name, int64_t after_revision);

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_JOB_WATCH_COMMAND_H_

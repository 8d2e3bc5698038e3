// `lorsa job fork`.
#ifndef LORSA_CLIENT_CLI_JOB_FORK_H_
#define LORSA_CLIENT_CLI_JOB_FORK_H_

#include "CLI/App.hpp"
#include "client/cli/session.h"

namespace lorsa::cli {

// Adds `fork` below `job`.
void AddForkCommand(CLI::App& job, Action* chosen);

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_JOB_FORK_H_

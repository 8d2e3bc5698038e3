// `lorsa job metrics`.
#ifndef LORSA_CLIENT_CLI_JOB_METRICS_H_
#define LORSA_CLIENT_CLI_JOB_METRICS_H_

#include "CLI/App.hpp"
#include "client/cli/session.h"

namespace lorsa::cli {

// Adds `metrics` below `job`.
void AddMetricsCommand(CLI::App& job, Action* chosen);

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_JOB_METRICS_H_

// Checkpoints as people name them on the command line.
#ifndef LORSA_CLIENT_CLI_CHECKPOINT_NAME_H_
#define LORSA_CLIENT_CLI_CHECKPOINT_NAME_H_

#include <string>

#include "absl/status/statusor.h"

namespace lorsa::cli {

// jobs/{job}/checkpoints/{checkpoint} for JOB (its best one), JOB@best, JOB@latest, JOB@1000 and
// JOB@step-000001000 (JOB with or without "jobs/"), or such a name itself. INVALID_ARGUMENT for
// anything else.
absl::StatusOr<std::string> CheckpointName(const std::string& text);

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_CHECKPOINT_NAME_H_

// `lorsa job submit`.
#ifndef LORSA_CLIENT_CLI_JOB_SUBMIT_H_
#define LORSA_CLIENT_CLI_JOB_SUBMIT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "CLI/App.hpp"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/session.h"

namespace lorsa::cli {

// {set}-{yyyymmdd}-{hhmmss}-{4 hex digits}, in UTC: a valid job id. The set's part is cut where
// it is too long, and "job" where it could not be part of an id.
std::string GenerateJobId(absl::string_view activation_set, absl::Time now,
                          const std::function<uint64_t()>& random);

// Adds `submit` below `job`.
void AddSubmitCommand(CLI::App& job, Action* chosen);

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_JOB_SUBMIT_H_

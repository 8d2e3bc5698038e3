// The options of a command that makes jobs: how they are queued, watched over and kept.
#ifndef LORSA_CLIENT_CLI_POLICY_OPTIONS_H_
#define LORSA_CLIENT_CLI_POLICY_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lorsa/v1/job.pb.h"

namespace lorsa::cli {

// As written on the command line.
struct PolicyOptions {
  int32_t priority = 0;
  std::vector<std::string> labels;  // KEY=VALUE
  std::string ttl;
  std::string deadline;
  std::string step_timeout;
  std::string webhook;
};

// Adds --priority, --label, --ttl, --deadline, --step-timeout and --webhook, which fill `options`.
void AddPolicyOptions(CLI::App& command, PolicyOptions* options);

// INVALID_ARGUMENT naming the option that cannot be read.
absl::StatusOr<v1::JobPolicy> MakePolicy(const PolicyOptions& options, absl::Time now);

// {"team": "interp"} from {"team=interp"}.
absl::StatusOr<std::map<std::string, std::string>> ParseLabels(
    const std::vector<std::string>& labels);

// "90s", "30m", "1h30m", "7d"; whole seconds of one or more.
absl::StatusOr<absl::Duration> ParseTimeSpan(absl::string_view text);

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_POLICY_OPTIONS_H_

#include "client/cli/policy_options.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace lorsa::cli {
namespace {

absl::StatusOr<absl::Duration> TimeSpanOf(const std::string& option, const std::string& text) {
  absl::StatusOr<absl::Duration> span = ParseTimeSpan(text);
  if (span.ok()) return span;
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", span.status().message()));
}

// A point in time, or a time span from now on.
absl::StatusOr<absl::Time> ParseDeadline(const std::string& text, absl::Time now) {
  absl::Time time;
  std::string error;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return time;
  const absl::StatusOr<absl::Duration> span = ParseTimeSpan(text);
  if (span.ok()) return now + *span;
  return absl::InvalidArgumentError(absl::StrCat(
      "--deadline: '", text, "' is neither a time span such as 12h nor a time such as ",
      "2026-12-24T18:00:00Z"));
}

}  // namespace

void AddPolicyOptions(CLI::App& command, PolicyOptions* options) {
  command.add_option("--priority", options->priority,
                     "Higher ones start first, -1000 to 1000 (default 0)");
  command.add_option("--label", options->labels,
                     "KEY=VALUE, by which `lorsa job list` finds the job; may be given several "
                     "times");
  command.add_option("--ttl", options->ttl,
                     "Delete the job this long after it ends, such as 30d, unless a checkpoint is "
                     "pinned (default: never)");
  command.add_option("--deadline", options->deadline,
                     "End the job if it has not ended by then: in 12h, or at "
                     "2026-12-24T18:00:00Z (default: none)");
  command.add_option("--step-timeout", options->step_timeout,
                     "Treat a worker as stuck after this long without progress (default: the "
                     "server's bound)");
  command.add_option("--webhook", options->webhook,
                     "URL that the server posts to when the job has ended (docs/webhooks.md)");
}

absl::StatusOr<v1::JobPolicy> MakePolicy(const PolicyOptions& options, absl::Time now) {
  v1::JobPolicy policy;
  policy.set_priority(options.priority);
  policy.set_webhook(options.webhook);
  LORSA_ASSIGN_OR_RETURN(const auto labels, ParseLabels(options.labels));
  policy.mutable_labels()->insert(labels.begin(), labels.end());
  if (!options.ttl.empty()) {
    LORSA_ASSIGN_OR_RETURN(const absl::Duration ttl, TimeSpanOf("--ttl", options.ttl));
    policy.mutable_ttl()->set_seconds(absl::ToInt64Seconds(ttl));
  }
  if (!options.step_timeout.empty()) {
    LORSA_ASSIGN_OR_RETURN(const absl::Duration timeout,
                           TimeSpanOf("--step-timeout", options.step_timeout));
    policy.mutable_step_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
  }
  if (!options.deadline.empty()) {
    LORSA_ASSIGN_OR_RETURN(const absl::Time deadline, ParseDeadline(options.deadline, now));
    policy.mutable_deadline()->set_seconds(absl::ToUnixSeconds(deadline));
  }
  return policy;
}

absl::StatusOr<std::map<std::string, std::string>> ParseLabels(
    const std::vector<std::string>& labels) {
  std::map<std::string, std::string> parsed;
  for (const std::string& label : labels) {
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--label: '", label, "' is not KEY=VALUE, such as team=interp"));
    }
    parsed[label.substr(0, equals)] = label.substr(equals + 1);
  }
  return parsed;
}

absl::StatusOr<absl::Duration> ParseTimeSpan(absl::string_view text) {
  absl::string_view days = text;
  int64_t count = 0;
  absl::Duration span;
  if (absl::ConsumeSuffix(&days, "d") && absl::SimpleAtoi(days, &count)) {
    span = absl::Hours(24) * count;
  } else if (!absl::ParseDuration(text, &span)) {
    span = absl::ZeroDuration();
  }
  if (span >= absl::Seconds(1) && span < absl::InfiniteDuration()) return span;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not a time span of a second or more, such as 90s, 12h or 7d"));
}

}  // namespace lorsa::cli

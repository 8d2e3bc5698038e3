#include "server/services/job_policy.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/identifiers.h"

namespace lorsa::server {
namespace {

constexpr int kMaxPriority = 1000;
constexpr int kMaxLabels = 32;
constexpr int64_t kDay = 24 * 3600;
constexpr int64_t kMaxTtlSeconds = 3650 * kDay;
constexpr int64_t kMinStepTimeoutSeconds = 10;
constexpr int64_t kMaxStepTimeoutSeconds = 7 * kDay;

// Whole seconds within the bounds; fractions are left out of both.
void CheckDuration(const google::protobuf::Duration& duration, const std::string& field,
                   int64_t least, int64_t most, std::vector<FieldViolation>& violations) {
  if (duration.seconds() >= least && duration.seconds() <= most) return;
  violations.push_back(
      {field, absl::StrCat("is ", duration.seconds(), " s; give ", least, " s to ", most, " s")});
}

}  // namespace

std::vector<FieldViolation> LabelViolations(
    const google::protobuf::Map<std::string, std::string>& labels, const std::string& field) {
  if (labels.size() > kMaxLabels) {
    return {{field, absl::StrCat("are ", labels.size(), "; give at most ", kMaxLabels)}};
  }
  std::vector<FieldViolation> violations;
  for (const auto& [key, value] : labels) {
    absl::Status status = ValidateId("a label's key", key);
    if (status.ok() && !value.empty()) status = ValidateId("a label's value", value);
    if (!status.ok()) violations.push_back({field, std::string(status.message())});
  }
  return violations;
}

std::vector<FieldViolation> PolicyViolations(const v1::JobPolicy& policy, absl::Time now,
                                             const WebhookReceivers& webhooks) {
  std::vector<FieldViolation> violations = LabelViolations(policy.labels(), "policy.labels");
  if (policy.priority() < -kMaxPriority || policy.priority() > kMaxPriority) {
    violations.push_back({"policy.priority", absl::StrCat("is ", policy.priority(), "; give ",
                                                          -kMaxPriority, " to ", kMaxPriority)});
  }
  if (policy.has_ttl()) {
    CheckDuration(policy.ttl(), "policy.ttl", 1, kMaxTtlSeconds, violations);
  }
  if (policy.has_step_timeout()) {
    CheckDuration(policy.step_timeout(), "policy.step_timeout", kMinStepTimeoutSeconds,
                  kMaxStepTimeoutSeconds, violations);
  }
  const absl::Time deadline = absl::FromUnixSeconds(policy.deadline().seconds()) +
                              absl::Nanoseconds(policy.deadline().nanos());
  if (policy.has_deadline() &&
      (deadline <= now || deadline > now + absl::Seconds(kMaxTtlSeconds))) {
    violations.push_back(
        {"policy.deadline", "is not between now and ten years from now; give a time to come"});
  }
  if (!policy.webhook().empty()) {
    const absl::Status status = webhooks.Check(policy.webhook());
    if (!status.ok()) violations.push_back({"policy.webhook", std::string(status.message())});
  }
  return violations;
}

}  // namespace lorsa::server

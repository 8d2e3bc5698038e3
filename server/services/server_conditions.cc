#include "server/services/server_conditions.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

namespace lorsa::server {

void ServerConditions::Set(absl::string_view reason, absl::string_view message) {
  absl::MutexLock lock(&mu_);
  const auto found = conditions_.find(reason);
  if (message.empty()) {
    if (found == conditions_.end()) return;
    spdlog::info("event=condition reason={} state=over", found->first);
    conditions_.erase(found);
    return;
  }
  if (found != conditions_.end() && found->second.message() == message) return;
  v1::ServerCondition& condition = conditions_[std::string(reason)];
  condition.set_message(std::string(message));
  if (condition.reason().empty()) {
    condition.set_reason(std::string(reason));
    *condition.mutable_since() =
        google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(now_()));
  }
  spdlog::warn("event=condition reason={} message=\"{}\"", condition.reason(), condition.message());
}

std::string ServerConditions::Message(absl::string_view reason) const {
  absl::MutexLock lock(&mu_);
  const auto found = conditions_.find(reason);
  return found == conditions_.end() ? "" : found->second.message();
}

std::vector<v1::ServerCondition> ServerConditions::All() const {
  absl::MutexLock lock(&mu_);
  std::vector<v1::ServerCondition> all;
  for (const auto& [reason, condition] : conditions_) all.push_back(condition);
  return all;
}

}  // namespace lorsa::server

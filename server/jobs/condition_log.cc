#include "server/jobs/condition_log.h"

#include <spdlog/spdlog.h>

namespace lorsa::server {

void ConditionLog::Note(absl::string_view problem) {
  if (problem == problem_) return;
  problem_ = std::string(problem);
  if (problem_.empty()) {
    spdlog::info("event={} state=over", event_);
  } else {
    spdlog::warn("event={} {}", event_, problem_);
  }
}

}  // namespace lorsa::server

// Log lines about something that is looked at again and again: one when it begins or changes, one
// when it is over, none in between.
#ifndef LORSA_SERVER_JOBS_CONDITION_LOG_H_
#define LORSA_SERVER_JOBS_CONDITION_LOG_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lorsa::server {

// One thread at a time.
class ConditionLog {
 public:
  // `event` is what the lines are called.
  explicit ConditionLog(std::string event) : event_(std::move(event)) {}

  // What a look found: key=value pairs that say what is wrong, empty if nothing is.
  void Note(absl::string_view problem);

 private:
  const std::string event_;
  std::string problem_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_CONDITION_LOG_H_

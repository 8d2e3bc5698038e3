#include "server/model/job_state.h"

#include "absl/strings/strip.h"

namespace lorsa::server {

absl::string_view JobStateName(v1::JobState state) {
  // Descriptors hand out static strings, so the view stays valid.
  return absl::StripPrefix(v1::JobState_Name(state), "JOB_STATE_");
}

}  // namespace lorsa::server

#include "client/cli/checkpoint_name.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/identifiers.h"
#include "base/status_macros.h"

namespace lorsa::cli {

absl::StatusOr<std::string> CheckpointName(const std::string& text) {
  absl::string_view job = text;
  absl::ConsumePrefix(&job, "jobs/");
  absl::string_view checkpoint = "best";
  for (const absl::string_view separator : {"/checkpoints/", "@"}) {
    const size_t at = job.find(separator);
    if (at == absl::string_view::npos) continue;
    checkpoint = job.substr(at + separator.size());
    job = job.substr(0, at);
    break;
  }
  std::string id(checkpoint);
  int64_t step = 0;
  if (absl::SimpleAtoi(checkpoint, &step) && step >= 0) id = absl::StrFormat("step-%09d", step);
  LORSA_RETURN_IF_ERROR(ValidateId("job id", job));
  LORSA_RETURN_IF_ERROR(ValidateId("checkpoint", id));
  return absl::StrCat("jobs/", job, "/checkpoints/", id);
}

}  // namespace lorsa::cli

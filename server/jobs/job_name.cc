#include "server/jobs/job_name.h"

#include "base/error_details.h"
#include "base/identifiers.h"

namespace lorsa::server {

absl::StatusOr<std::string> JobIdFrom(const std::string& name, absl::string_view field) {
  absl::StatusOr<std::string> id = IdFromName("jobs", name);
  if (!id.ok()) return ForField(id.status(), field);
  return id;
}

}  // namespace lorsa::server

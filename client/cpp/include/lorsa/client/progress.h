// What a running job reports of its progress, by name.
#ifndef LORSA_CLIENT_PROGRESS_H_
#define LORSA_CLIENT_PROGRESS_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "lorsa/v1/job.pb.h"

namespace lorsa::client {

// The value of that name (job.proto lists those of a training job); nothing if it is not reported.
inline std::optional<double> ProgressValue(const v1::JobProgress& progress,
                                           absl::string_view name) {
  for (const v1::ProgressValue& value : progress.values()) {
    if (value.name() == name) return value.value();
  }
  return std::nullopt;
}

// The share of the job that is done, 0 to 1.
inline double ProgressFraction(const v1::JobProgress& progress) {
  if (progress.total_steps() <= 0) return 0;
  return static_cast<double>(progress.step()) / static_cast<double>(progress.total_steps());
}

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_PROGRESS_H_

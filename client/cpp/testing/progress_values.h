// For tests: progress as the worker of a training job reports it.
#ifndef LORSA_CLIENT_CPP_TESTING_PROGRESS_VALUES_H_
#define LORSA_CLIENT_CPP_TESTING_PROGRESS_VALUES_H_

#include <string>
#include <utility>
#include <vector>

#include "lorsa/v1/job.pb.h"

namespace lorsa::client {

inline void AddProgressValues(v1::JobProgress& progress,
                              const std::vector<std::pair<std::string, double>>& values) {
  for (const auto& [name, value] : values) {
    v1::ProgressValue& added = *progress.add_values();
    added.set_name(name);
    added.set_value(value);
  }
}

}  // namespace lorsa::client

#endif  // LORSA_CLIENT_CPP_TESTING_PROGRESS_VALUES_H_

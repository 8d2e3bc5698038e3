// Fields of a training specification that must stay what they are. Pure; thread-safe.
#ifndef LORSA_JOB_SPEC_FIXED_FIELDS_H_
#define LORSA_JOB_SPEC_FIXED_FIELDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lorsa/v1/training_spec.pb.h"

namespace lorsa {

// Those of the fields `fixed` that are set in `changes` to something else than in `spec`.
std::vector<std::string> ChangedFields(const v1::TrainingSpec& spec,
                                       const v1::TrainingSpec& changes,
                                       absl::Span<const absl::string_view> fixed);

}  // namespace lorsa

#endif  // LORSA_JOB_SPEC_FIXED_FIELDS_H_

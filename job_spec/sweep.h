// From one specification and lists of values to all their combinations. Pure; thread-safe.
#ifndef LORSA_JOB_SPEC_SWEEP_H_
#define LORSA_JOB_SPEC_SWEEP_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <string>
#include <vector>

#include "base/field_violation.h"
#include "lorsa/v1/sweep.pb.h"
#include "lorsa/v1/training_spec.pb.h"

namespace lorsa {

struct SweepCombination {
  v1::TrainingSpec spec;
  std::string values;  // "top_k: 64, learning_rate: 1e-3"
};

struct ExpandedSweep {
  // In order, the last parameter changing fastest; empty if there are violations.
  std::vector<SweepCombination> combinations;
  std::vector<FieldViolation> violations;  // fields are named "parameters[0].values[1]"
};

// By the bounds in sweep.proto.
ExpandedSweep ExpandSweep(const v1::TrainingSpec& spec,
                          const google::protobuf::RepeatedPtrField<v1::SweepParameter>& parameters);

}  // namespace lorsa

#endif  // LORSA_JOB_SPEC_SWEEP_H_

// From the specification that a client wrote to the one that runs: fills in every default and finds
// every problem at once. Pure; thread-safe. The defaults and bounds are those written beside the
// fields in proto/lorsa/v1/training_spec.proto.
#ifndef LORSA_JOB_SPEC_RESOLVE_H_
#define LORSA_JOB_SPEC_RESOLVE_H_

#include <vector>

#include "base/field_violation.h"
#include "job_spec/training_machine.h"
#include "lorsa/v1/activation_service.pb.h"
#include "lorsa/v1/training_spec.pb.h"

namespace lorsa {

struct ResolvedSpec {
  // Every field set, with the exceptions that training_spec.proto names. Meaningful only if there
  // are no violations. Resolving it again gives the same.
  v1::TrainingSpec spec;
  std::vector<FieldViolation> violations;
  bool ok() const { return violations.empty(); }
};

// A run that starts from a checkpoint is resolved by ResolveFromWeights (initial_weights.h).
ResolvedSpec ResolveTrainingSpec(const v1::TrainingSpec& spec, const v1::ActivationSet& set,
                                 const TrainingMachine& machine);

}  // namespace lorsa

#endif  // LORSA_JOB_SPEC_RESOLVE_H_

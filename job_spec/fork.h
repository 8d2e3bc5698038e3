// The specification of a run that goes on from another's checkpoint with some fields changed. Pure;
// thread-safe.
#ifndef LORSA_JOB_SPEC_FORK_H_
#define LORSA_JOB_SPEC_FORK_H_

#include <cstdint>

#include "job_spec/resolve.h"
#include "job_spec/training_machine.h"
#include "lorsa/v1/activation_service.pb.h"
#include "lorsa/v1/training_spec.pb.h"

namespace lorsa {

// `ran` is what the other run resolved to, `checkpoint_tokens` where its checkpoint stands. Fields
// that are set in `changes` take the place of its own. Violations, named as fields of `changes`,
// for those that the checkpoint fixes (unless they are what they were), for a run that would have
// nothing left to do, and of ResolveTrainingSpec.
ResolvedSpec ForkTrainingSpec(const v1::TrainingSpec& ran, const v1::TrainingSpec& changes,
                              int64_t checkpoint_tokens, const v1::ActivationSet& set,
                              const TrainingMachine& machine);

}  // namespace lorsa

#endif  // LORSA_JOB_SPEC_FORK_H_

// The specification of a run that starts from the weights of a checkpoint. Pure; thread-safe.
#ifndef LORSA_JOB_SPEC_INITIAL_WEIGHTS_H_
#define LORSA_JOB_SPEC_INITIAL_WEIGHTS_H_

#include <cstdint>
#include <string>

#include "job_spec/resolve.h"
#include "job_spec/training_machine.h"
#include "lorsa/v1/activation_service.pb.h"
#include "lorsa/v1/training_spec.pb.h"

namespace lorsa {

// What the weights are of.
struct InitialWeights {
  // The fields that describe the Lorsa, all set but those that do not apply (rope, qk_norm,
  // expansion_factor).
  v1::TrainingSpec lorsa;
  int64_t d_model = 0;
  std::string hook_convention;
};

// As ResolveTrainingSpec, for a `spec` whose initial_checkpoint has these weights. Fields that the
// weights fix are taken from them, with a violation for those that are given otherwise; which heads
// are kept (top_k, selection, select_by_decoder_norm) only defaults to theirs. A violation of
// initial_checkpoint if they are of another d_model or hook convention than the set.
ResolvedSpec ResolveFromWeights(const v1::TrainingSpec& spec, const InitialWeights& weights,
                                const v1::ActivationSet& set, const TrainingMachine& machine);

}  // namespace lorsa

#endif  // LORSA_JOB_SPEC_INITIAL_WEIGHTS_H_

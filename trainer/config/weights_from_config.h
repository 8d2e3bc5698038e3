// What a checkpoint's config.json says, in the service's terms.
#ifndef LORSA_TRAINER_CONFIG_WEIGHTS_FROM_CONFIG_H_
#define LORSA_TRAINER_CONFIG_WEIGHTS_FROM_CONFIG_H_

#include "job_spec/initial_weights.h"
#include "trainer/config/checkpoint_config.h"

namespace lorsa::worker {

// `config` is valid.
InitialWeights WeightsFromConfig(const trainer::CheckpointConfig& config);

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_CONFIG_WEIGHTS_FROM_CONFIG_H_

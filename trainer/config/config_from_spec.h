// From the service's messages to the trainer's own structs.
#ifndef LORSA_TRAINER_CONFIG_CONFIG_FROM_SPEC_H_
#define LORSA_TRAINER_CONFIG_CONFIG_FROM_SPEC_H_

#include "absl/status/statusor.h"
#include "lorsa/v1/activation_service.pb.h"
#include "lorsa/v1/training_spec.pb.h"
#include "trainer/config/train_config.h"

namespace lorsa::worker {

// `resolved` must be resolved (job_spec/resolve.h). INVALID_ARGUMENT for an enum value that this
// program does not know, e.g. from a newer server.
absl::StatusOr<trainer::TrainConfig> ConfigFromSpec(const v1::TrainingSpec& resolved,
                                                    const v1::ActivationSet& set);

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_CONFIG_CONFIG_FROM_SPEC_H_

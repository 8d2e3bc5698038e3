// Before the first step: refuses a run that the machine cannot hold.
#ifndef LORSA_TRAINER_TRAIN_PREFLIGHT_H_
#define LORSA_TRAINER_TRAIN_PREFLIGHT_H_

#include "absl/status/status.h"
#include "trainer/config/train_config.h"
#include "trainer/train/run_host.h"

namespace lorsa::trainer {

// Compares what the run will take (trainer/resources/resource_estimate.h) with the memory that the
// process can have and, if the run is `fresh`, with the free bytes of the staging folder's file
// system. A run that goes on waits for a full disk instead. FAILED_PRECONDITION with what is
// needed, what there is and the fields to change. What the machine does not tell is not checked,
// with a warning.
absl::Status CheckResources(const TrainConfig& config, RunHost& host, bool fresh);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_PREFLIGHT_H_

// What the log says of any run, under a server or alone: what it was expected to take of the
// machine and what it took.
#ifndef LORSA_TRAINER_WORKER_RUN_LOG_H_
#define LORSA_TRAINER_WORKER_RUN_LOG_H_

#include "trainer/train/train_config.h"
#include "trainer/train/training_run.h"

namespace lorsa::worker {

// Before the run.
void LogExpected(const trainer::TrainConfig& config);
// After it.
void LogTaken(const trainer::RunOutcome& outcome);

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_RUN_LOG_H_

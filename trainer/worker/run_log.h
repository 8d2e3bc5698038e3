// What the log says of any run, under a server or alone: which it is, what it was expected to take
// of the machine and what it took.
#ifndef LORSA_TRAINER_WORKER_RUN_LOG_H_
#define LORSA_TRAINER_WORKER_RUN_LOG_H_

#include <string>

#include "trainer/config/train_config.h"
#include "trainer/train/training_run.h"

namespace lorsa::worker {

// How every line begins: time and level, then `fields` ("job=jobs/demo attempt=2"), if any.
void SetLogPattern(const std::string& fields);

// Before the run.
void LogExpected(const trainer::TrainConfig& config);
// After it.
void LogTaken(const trainer::RunOutcome& outcome);

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_RUN_LOG_H_

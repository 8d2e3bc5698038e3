// The trainer's reports as the service's messages.
#ifndef LORSA_TRAINER_WORKER_MESSAGES_H_
#define LORSA_TRAINER_WORKER_MESSAGES_H_

#include "absl/time/time.h"
#include "lorsa/v1/job.pb.h"
#include "lorsa/v1/metric_service.pb.h"
#include "lorsa/v1/worker_service.pb.h"
#include "trainer/train/run_host.h"
#include "trainer/train/training_run.h"

namespace lorsa::worker {

// Without attempt and sequence, which the server sets.
v1::MetricPoint ToMessage(const trainer::MetricPoint& point, absl::Time now);
v1::JobProgress ToMessage(const trainer::Progress& progress);
v1::WorkerOutcome ToMessage(const trainer::RunOutcome& outcome);

// The outcome of a run that ended with `error`: FAILED, with a reason for programs.
v1::WorkerOutcome FailedOutcome(const absl::Status& error);

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_MESSAGES_H_

// What a training job takes of the machine, estimated before it runs, without a process of its own
// and without libtorch.
#ifndef LORSA_SERVER_KINDS_TRAINING_ESTIMATE_H_
#define LORSA_SERVER_KINDS_TRAINING_ESTIMATE_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lorsa/v1/job.pb.h"
#include "lorsa/v1/training_spec.pb.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {

// Memory and disk, without time. `resolved` is a resolved specification. Reads the set that it
// names. NOT_FOUND if the set is gone; INVALID_ARGUMENT for what lorsa-worker would refuse too.
absl::StatusOr<v1::JobEstimate> EstimateTrainingResources(const Catalog& catalog,
                                                          const v1::TrainingSpec& resolved);

// How long it runs; nothing if no like job has succeeded here. Reads up to 100 jobs: for a client
// that asks, not for each job that is made. Errors as above.
absl::StatusOr<std::optional<absl::Duration>> EstimateTrainingTime(
    const Catalog& catalog, const v1::TrainingSpec& resolved);

// Of one checkpoint of such a job, all files together. Errors as above.
absl::StatusOr<int64_t> EstimateCheckpointBytes(const Catalog& catalog,
                                                const v1::TrainingSpec& resolved);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_KINDS_TRAINING_ESTIMATE_H_

// The checkpoint that a new job starts from (TrainingSpec.initial_checkpoint).
#ifndef LORSA_SERVER_KINDS_INITIAL_CHECKPOINT_H_
#define LORSA_SERVER_KINDS_INITIAL_CHECKPOINT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"
#include "job_spec/initial_weights.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/model/data_layout.h"

namespace lorsa::server {

struct InitialCheckpoint {
  v1::Checkpoint checkpoint;
  InitialWeights weights;
};

// That of this name, best and latest included, with what its config.json says. INVALID_ARGUMENT
// naming `field` of the request for a name of another form; NOT_FOUND if there is none;
// FAILED_PRECONDITION (DAMAGED_CHECKPOINT) if it is damaged.
absl::StatusOr<InitialCheckpoint> FindInitialCheckpoint(const Catalog& catalog, FileSystem& fs,
                                                        const DataLayout& layout,
                                                        const std::string& name,
                                                        absl::string_view field);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_KINDS_INITIAL_CHECKPOINT_H_

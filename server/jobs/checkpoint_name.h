// Names of checkpoints in requests.
#ifndef LORSA_SERVER_JOBS_CHECKPOINT_NAME_H_
#define LORSA_SERVER_JOBS_CHECKPOINT_NAME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "server/catalog/catalog.h"

namespace lorsa::server {

struct CheckpointName {
  std::string job_id;
  std::string checkpoint_id;  // step-000001000, best or latest

  bool is_alias() const { return checkpoint_id == "best" || checkpoint_id == "latest"; }
};

// Of jobs/{job}/checkpoints/{checkpoint}; INVALID_ARGUMENT naming `field` of the request otherwise.
absl::StatusOr<CheckpointName> ParseCheckpointName(const std::string& name,
                                                   absl::string_view field);

struct CheckpointStep {
  std::string job_id;
  int64_t step = 0;
};

// As ParseCheckpointName; INVALID_ARGUMENT also for best and latest, which may become another
// checkpoint between two calls.
absl::StatusOr<CheckpointStep> ParseCheckpointStep(const std::string& name,
                                                   absl::string_view field);

// 1000 from "step-000001000"; INVALID_ARGUMENT naming `field` otherwise.
absl::StatusOr<int64_t> StepOf(absl::string_view checkpoint_id, absl::string_view field);

// The checkpoint of that name among those of its job, also best and latest. NOT_FOUND if there is
// no best or latest one.
absl::StatusOr<CheckpointChoice> ChoiceOf(const CheckpointName& name, absl::string_view field);

// The checkpoint of that name; NOT_FOUND if there is none.
absl::StatusOr<v1::Checkpoint> FindCheckpoint(const Catalog& catalog, const CheckpointName& name,
                                              absl::string_view field);
// The same among checkpoints that were read already.
absl::StatusOr<v1::Checkpoint> FindCheckpoint(const std::vector<v1::Checkpoint>& checkpoints,
                                              const CheckpointName& name, absl::string_view field);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_CHECKPOINT_NAME_H_

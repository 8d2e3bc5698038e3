// Where things lie below the data folder. Paths are built from validated ids and numbers only.
//
//   lock                        held by the running server (see base/folder_lock.h)
//   endpoint                    "host:port" of the running server
//   catalog.sqlite              see catalog/catalog.h
//   catalog.sqlite.version-N    copy left when a catalog of version N was upgraded
//   spare-room                  room to be given up on a full disk (server/spare_room.h)
//   generation                  counts starts of servers (see jobs/data_adoption.h)
//   lost+found/TIME/            what the catalog did not know and could not adopt, with its path as
//                               it was (see jobs/lost_and_found.h); for people to look at
//   sets/ID/                    sets that were uploaded (see services/set_uploads.h)
//   imports/ID/                 checkpoints in the making that are imported as job ID
//   jobs/ID/
//     job.textproto             Job with what its attempts need, for a catalog that lost it
//     attempts/0001/            one folder per attempt
//       bootstrap.textproto     WorkerBootstrap, mode 0600: it holds the attempt's token
//       worker.log              what the worker printed
//       outcome.textproto       WorkerOutcome, left by the worker when it ends
//       staging/step-…/         checkpoints in the making, written by the worker or sent by it
//                               (services/staged_uploads.h); removed with the end of attempt or job
//     checkpoints/step-…/       published checkpoints
//     initial_checkpoint/       the job's copy of the checkpoint whose weights it starts from
//     trash/                    what is being removed
//     damaged/step-…/           checkpoints that did not verify when a worker wanted them
//     rollbacks.json            written or sent by workers: the steps whose batches are left out
//                               since they made numbers that are not finite
#ifndef LORSA_SERVER_MODEL_DATA_LAYOUT_H_
#define LORSA_SERVER_MODEL_DATA_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace lorsa::server {

// Immutable; thread-safe. `job_id` everywhere is a valid id (base/identifiers.h).
class DataLayout {
 public:
  explicit DataLayout(std::string data_folder) : root_(std::move(data_folder)) {}

  const std::string& root() const { return root_; }
  std::string LockFile() const;
  std::string EndpointFile() const;
  std::string CatalogFile() const;
  std::string SpareRoomFile() const;
  std::string GenerationFile() const;
  std::string LostAndFoundFolder() const;
  std::string SetsFolder() const;
  std::string ImportFolder(absl::string_view job_id) const;

  std::string JobsFolder() const;
  std::string JobFolder(absl::string_view job_id) const;
  std::string JobFile(absl::string_view job_id) const;
  std::string AttemptsFolder(absl::string_view job_id) const;
  std::string AttemptFolder(absl::string_view job_id, int attempt) const;
  std::string BootstrapFile(absl::string_view job_id, int attempt) const;
  std::string LogFile(absl::string_view job_id, int attempt) const;
  std::string OutcomeFile(absl::string_view job_id, int attempt) const;
  std::string StagingFolder(absl::string_view job_id, int attempt) const;
  std::string CheckpointsFolder(absl::string_view job_id) const;
  std::string CheckpointFolder(absl::string_view job_id, int64_t step) const;
  std::string InitialCheckpointFolder(absl::string_view job_id) const;
  std::string TrashFolder(absl::string_view job_id) const;
  std::string DamagedFolder(absl::string_view job_id) const;
  std::string RollbacksFile(absl::string_view job_id) const;

 private:
  std::string root_;
};

// "step-000001000": what a checkpoint's folder and resource are called.
std::string CheckpointId(int64_t step);

// The step of such a name; nothing if `id` is none.
std::optional<int64_t> StepOfCheckpointId(absl::string_view id);

// "demo" of jobs/demo/checkpoints/step-000001000, a name that the server made.
std::string JobIdOfCheckpoint(absl::string_view name);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_MODEL_DATA_LAYOUT_H_

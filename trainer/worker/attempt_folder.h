// Where a worker that does not share the server's disk keeps its files.
//
//   SCRATCH/JOB.attempt-0002.PID/
//     lock               held by the worker (base/folder_lock.h)
//     staging/           checkpoints that are being written and sent; the attention weights
//     fetched/           the checkpoint that the run went on from, or went back to
//     rollbacks.json     the server's list, and what the run adds to it
#ifndef LORSA_TRAINER_WORKER_ATTEMPT_FOLDER_H_
#define LORSA_TRAINER_WORKER_ATTEMPT_FOLDER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "base/folder_lock.h"
#include "lorsa/v1/worker_service.pb.h"

namespace lorsa::worker {

// The folder of one worker, removed when this is destroyed. One thread.
class AttemptFolder {
 public:
  // Makes the folder below `scratch`, which is made if absent; removes those of the job whose
  // workers were killed, and none that is in use: another server may have a job of the same id.
  // `fs` outlives it.
  static absl::StatusOr<std::unique_ptr<AttemptFolder>> Create(FileSystem& fs,
                                                               const std::string& scratch,
                                                               const v1::WorkerBootstrap& attempt);
  ~AttemptFolder();
  AttemptFolder(const AttemptFolder&) = delete;
  AttemptFolder& operator=(const AttemptFolder&) = delete;

  std::string staging_folder() const { return JoinPath(path_, "staging"); }
  std::string fetched_folder() const { return JoinPath(path_, "fetched"); }
  std::string rollbacks_file() const { return JoinPath(path_, "rollbacks.json"); }

 private:
  AttemptFolder(FileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  FileSystem& fs_;
  const std::string path_;
  std::unique_ptr<FolderLock> lock_;
};

}  // namespace lorsa::worker

#endif  // LORSA_TRAINER_WORKER_ATTEMPT_FOLDER_H_

// Checkpoints that arrive file by file (file_uploads.h) from a worker that does not share the
// server's disk, in its attempt's staging folder: jobs/ID/attempts/N/staging/step-…/. Publication
// (checkpoint_publisher.h) then verifies them as any other.
#ifndef LORSA_SERVER_SERVICES_STAGED_UPLOADS_H_
#define LORSA_SERVER_SERVICES_STAGED_UPLOADS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_kind.h"
#include "server/model/data_layout.h"
#include "server/services/file_uploads.h"

namespace lorsa::server {

// Thread-safe; blocks on the disk. `attempt` everywhere is a job's current one.
class StagedUploads {
 public:
  // `catalog`, `kinds` and `fs` outlive this.
  StagedUploads(const Catalog& catalog, const JobKinds& kinds, FileSystem& fs, DataLayout layout,
                int64_t disk_reserve_bytes)
      : catalog_(catalog),
        kinds_(kinds),
        fs_(fs),
        layout_(std::move(layout)),
        files_(fs, disk_reserve_bytes) {}

  // Takes the file that `start` announces; drops what other folder is staged. INVALID_ARGUMENT
  // naming every field of it that is wrong; FAILED_PRECONDITION if the attempt's folders are gone;
  // else the errors of FileUploads::Receive.
  absl::StatusOr<std::unique_ptr<FileReceiver>> Receive(const AttemptKey& attempt,
                                                        const v1::StagedFileStart& start);

  // What of the checkpoint `folder` is there. INVALID_ARGUMENT if it has not the name of one.
  absl::StatusOr<v1::Upload> Describe(const AttemptKey& attempt, const std::string& folder) const;

 private:
  absl::StatusOr<const JobKind*> KindOf(const JobRecord& job) const;
  absl::Status DropAllBut(const std::string& staging, const std::string& folder);

  const Catalog& catalog_;
  const JobKinds& kinds_;
  FileSystem& fs_;
  const DataLayout layout_;
  FileUploads files_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_STAGED_UPLOADS_H_

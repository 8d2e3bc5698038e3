// A checkpoint's folder that some other program wrote becomes one of the server's.
//
// Protocol of an import as job ID:
//   1. imports/ID, left by an import that was cut off, is removed.
//   2. A child process parses the folder (server/inspection). Each file that the folder's manifest
//   lists is copied there and fsynced: regular files alone,
//      of valid names, not through links, no more than announced and than there is room for.
//   3. The copy is held against its manifest: sizes, sha256, no other file. From here on the folder
//      that it came from does not matter.
//   4. A child process parses the copy, which nobody else can change: what was parsed is what is
//   read
//      from here on. The weights are held against their configuration: names, types and shapes,
//      from the header of the file alone.
//   5. While no other job is created: the id is free; what lies in jobs/ID, which is nobody's, is
//      set aside; the copy is renamed to jobs/ID/checkpoints/step-…, and the parent folders are
//      fsynced (JobCreator::ImportCheckpoint).
//   6. The catalog stores job and checkpoint in one transaction.
// A crash before 6 leaves folders that no job knows; the next start, or job of that id, sets them
// aside.
#ifndef LORSA_SERVER_SERVICES_CHECKPOINT_IMPORT_H_
#define LORSA_SERVER_SERVICES_CHECKPOINT_IMPORT_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_system.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "server/catalog/catalog.h"
#include "server/inspection/inspector.h"
#include "server/jobs/job_manager.h"
#include "server/model/data_layout.h"

namespace lorsa::server {

struct ImportEnvironment {
  Catalog& catalog;
  FileSystem& fs;
  JobManager& jobs;
  const Inspector& inspector;
  DataLayout layout;
  int64_t disk_reserve_bytes = 0;
};

// Imports `folder`, whose path was resolved, as the only checkpoint of the new job `job_id`, a
// valid id. ALREADY_EXISTS if there is such a job; INVALID_ARGUMENT or DATA_LOSS naming the file
// that does not hold; RESOURCE_EXHAUSTED if there is no room; CANCELLED if `progress` (bytes done
// and in all) returns false. On error no job was made. One import at a time.
absl::StatusOr<v1::Checkpoint> ImportCheckpoint(
    const ImportEnvironment& environment, const std::string& job_id, const std::string& folder,
    const std::function<bool(int64_t, int64_t)>& progress);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_SERVICES_CHECKPOINT_IMPORT_H_

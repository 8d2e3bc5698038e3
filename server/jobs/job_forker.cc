// The numbers are those of the protocol in job_forker.h.
#include "server/jobs/job_forker.h"

#include <spdlog/spdlog.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/identifiers.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_files.h"

namespace lorsa::server {
namespace {

absl::Status Gone(const v1::Checkpoint& checkpoint) {
  return absl::NotFoundError(
      absl::StrCat(checkpoint.name(), " was removed meanwhile; fork from another one"));
}

absl::Status CheckManifest(FileSystem& fs, const std::string& folder,
                           const v1::Checkpoint& checkpoint) {
  LORSA_ASSIGN_OR_RETURN(const std::string sha256,
                         Sha256OfFile(fs, JoinPath(folder, kManifestFile)));
  return sha256 == ManifestSha256(checkpoint) ? absl::OkStatus() : Gone(checkpoint);
}

}  // namespace

absl::StatusOr<JobRecord> JobForker::Fork(const std::string& source_id, const NewJob& job) {
  const absl::Status is_free = env_.catalog.CheckJobIdIsFree(job.id);
  // What is there may be what this very request made.
  if (absl::IsAlreadyExists(is_free)) return env_.catalog.CreateJob(job, env_.now());
  LORSA_RETURN_IF_ERROR(is_free);
  const absl::StatusOr<JobRecord> created = LinkAndCreate(source_id, job);
  // If this fails too, the next start does it.
  if (!created.ok()) env_.fs.RemoveAll(env_.layout.JobFolder(job.id)).IgnoreError();
  return created;
}

absl::StatusOr<JobRecord> JobForker::LinkAndCreate(const std::string& source_id,
                                                   const NewJob& job) {
  LORSA_RETURN_IF_ERROR(Link(source_id, job));
  return env_.catalog.CreateJob(job, env_.now());  // 4
}

absl::Status JobForker::Link(const std::string& source_id, const NewJob& job) {
  const v1::Checkpoint& checkpoint = *job.first_checkpoint;
  const std::string from = env_.layout.CheckpointFolder(source_id, checkpoint.step());
  const std::string to = env_.layout.CheckpointFolder(job.id, checkpoint.step());
  LORSA_RETURN_IF_ERROR(env_.fs.RemoveAll(env_.layout.CheckpointsFolder(job.id)));  // 1
  LORSA_RETURN_IF_ERROR(env_.fs.CreateDirectories(to));                             // 2
  for (const v1::CheckpointFile& file : checkpoint.files()) {
    const absl::Status linked = env_.link(JoinPath(from, file.name()), JoinPath(to, file.name()));
    if (absl::IsNotFound(linked)) return Gone(checkpoint);
    LORSA_RETURN_IF_ERROR(linked);
  }
  const std::string jobs = env_.layout.JobsFolder();
  for (std::string folder = to; folder.size() >= jobs.size(); folder = DirectoryOf(folder)) {
    LORSA_RETURN_IF_ERROR(env_.fs.SyncDirectory(folder));
  }
  LORSA_RETURN_IF_ERROR(env_.fs.SyncDirectory(env_.layout.root()));
  return CheckManifest(env_.fs, to, checkpoint);  // 3
}

void JobForker::RemoveRemains() {
  const absl::StatusOr<std::vector<std::string>> ids = env_.fs.List(env_.layout.JobsFolder());
  if (!ids.ok()) return;  // No job has had a folder yet.
  for (const std::string& id : *ids) {
    if (!ValidateId("job id", id).ok() || !env_.catalog.CheckJobIdIsFree(id).ok()) continue;
    // A job that an older copy of the catalog forgot has some: that is kept.
    if (env_.fs.Exists(env_.layout.AttemptsFolder(id)).value_or(true)) continue;
    const absl::Status removed = env_.fs.RemoveAll(env_.layout.JobFolder(id));
    spdlog::info("event=fork_remains_removed job={} status=\"{}\"", id, removed.ToString());
  }
}

}  // namespace lorsa::server

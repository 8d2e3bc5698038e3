// The numbers are those of the protocol in job_creator.h.
#include "server/jobs/job_creator.h"

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
      absl::StrCat(checkpoint.name(), " was removed meanwhile; begin from another one"));
}

absl::Status CheckManifest(FileSystem& fs, const std::string& folder,
                           const v1::Checkpoint& checkpoint) {
  LORSA_ASSIGN_OR_RETURN(const std::string sha256,
                         Sha256OfFile(fs, JoinPath(folder, kManifestFile)));
  return sha256 == ManifestSha256(checkpoint) ? absl::OkStatus() : Gone(checkpoint);
}

// Whether the job begins from a copy of a checkpoint.
bool HasCopy(const NewJob& job) {
  return job.first_checkpoint.has_value() || job.initial_checkpoint.has_value();
}

}  // namespace

absl::StatusOr<JobRecord> JobCreator::CreateJob(const NewJob& job) {
  absl::StatusOr<JobRecord> created = absl::UnknownError("");
  const auto store = [&] {
    created = env_.catalog.CreateJob(job, env_.now());
    return created.status();
  };
  LORSA_RETURN_IF_ERROR(WithCopies(absl::MakeConstSpan(&job, 1), store));
  return created;
}

absl::StatusOr<v1::Sweep> JobCreator::CreateSweep(const NewSweep& sweep) {
  absl::StatusOr<v1::Sweep> created = absl::UnknownError("");
  const auto store = [&] {
    created = env_.catalog.CreateSweep(sweep, env_.now());
    return created.status();
  };
  LORSA_RETURN_IF_ERROR(WithCopies(sweep.jobs, store));
  return created;
}

absl::Status JobCreator::WithCopies(absl::Span<const NewJob> jobs,
                                    absl::FunctionRef<absl::Status()> store) {
  for (const NewJob& job : jobs) {
    const absl::Status is_free = env_.catalog.CheckJobIdIsFree(job.id);
    // What is there may be what this very request made.
    if (absl::IsAlreadyExists(is_free)) return store();
    LORSA_RETURN_IF_ERROR(is_free);
  }
  absl::Status status;
  for (const NewJob& job : jobs) {
    if (status.ok() && HasCopy(job)) status = Copy(job);
  }
  if (status.ok()) status = store();  // 4
  if (status.ok()) return status;
  for (const NewJob& job : jobs) {
    // If this fails too, the next start does it.
    if (HasCopy(job)) env_.fs.RemoveAll(env_.layout.JobFolder(job.id)).IgnoreError();
  }
  return status;
}

absl::Status JobCreator::Copy(const NewJob& job) {
  const std::string checkpoints = env_.layout.CheckpointsFolder(job.id);
  const std::string initial = env_.layout.InitialCheckpointFolder(job.id);
  LORSA_RETURN_IF_ERROR(env_.fs.RemoveAll(checkpoints));  // 1
  LORSA_RETURN_IF_ERROR(env_.fs.RemoveAll(initial));
  if (job.first_checkpoint.has_value()) {
    LORSA_RETURN_IF_ERROR(Link(*job.first_checkpoint,
                               env_.layout.CheckpointFolder(job.id, job.first_checkpoint->step())));
  }
  if (job.initial_checkpoint.has_value()) {
    LORSA_RETURN_IF_ERROR(Link(*job.initial_checkpoint, initial));
  }
  return absl::OkStatus();
}

absl::Status JobCreator::Link(const v1::Checkpoint& checkpoint, const std::string& to) const {
  const std::string from =
      env_.layout.CheckpointFolder(JobIdOfCheckpoint(checkpoint.name()), checkpoint.step());
  LORSA_RETURN_IF_ERROR(env_.fs.CreateDirectories(to));  // 2
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

void JobCreator::RemoveRemains() {
  const absl::StatusOr<std::vector<std::string>> ids = env_.fs.List(env_.layout.JobsFolder());
  if (!ids.ok()) return;  // No job has had a folder yet.
  for (const std::string& id : *ids) {
    if (!ValidateId("job id", id).ok() || !env_.catalog.CheckJobIdIsFree(id).ok()) continue;
    // A job that an older copy of the catalog forgot has some: that is kept.
    if (env_.fs.Exists(env_.layout.AttemptsFolder(id)).value_or(true)) continue;
    const absl::Status removed = env_.fs.RemoveAll(env_.layout.JobFolder(id));
    spdlog::info("event=creation_remains_removed job={} status=\"{}\"", id, removed.ToString());
  }
}

}  // namespace lorsa::server

// The numbers are those of the protocol in job_creator.h.
#include "server/jobs/job_creator.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_files.h"
#include "server/jobs/lost_and_found.h"

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
  for (const NewJob& job : jobs) LORSA_RETURN_IF_ERROR(ClearFolder(job.id));  // 1
  absl::Status status;
  for (const NewJob& job : jobs) {
    if (status.ok() && HasCopy(job)) status = Copy(job);
  }
  if (status.ok()) status = store();  // 4
  if (status.ok()) return status;
  for (const NewJob& job : jobs) {
    // All of it was made here. If this fails too, it is set aside later.
    if (HasCopy(job)) env_.fs.RemoveAll(env_.layout.JobFolder(job.id)).IgnoreError();
  }
  return status;
}

absl::Status JobCreator::ClearFolder(const std::string& job_id) const {
  return SetAside(env_, env_.layout.JobFolder(job_id), "a new job has its id");
}

absl::Status JobCreator::Copy(const NewJob& job) const {
  if (job.first_checkpoint.has_value()) {
    LORSA_RETURN_IF_ERROR(Link(*job.first_checkpoint,
                               env_.layout.CheckpointFolder(job.id, job.first_checkpoint->step())));
  }
  if (job.initial_checkpoint.has_value()) {
    LORSA_RETURN_IF_ERROR(
        Link(*job.initial_checkpoint, env_.layout.InitialCheckpointFolder(job.id)));
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
  LORSA_RETURN_IF_ERROR(SyncUpFrom(to));
  return CheckManifest(env_.fs, to, checkpoint);  // 3
}

absl::Status JobCreator::SyncUpFrom(std::string folder) const {
  for (; folder.size() >= env_.layout.root().size(); folder = DirectoryOf(folder)) {
    LORSA_RETURN_IF_ERROR(env_.fs.SyncDirectory(folder));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Checkpoint> JobCreator::ImportCheckpoint(const NewJob& job,
                                                            const v1::Checkpoint& checkpoint,
                                                            const std::string& folder) {
  LORSA_RETURN_IF_ERROR(env_.catalog.CheckJobIdIsFree(job.id));
  LORSA_RETURN_IF_ERROR(ClearFolder(job.id));
  absl::StatusOr<v1::Checkpoint> stored = MoveAndStore(job, checkpoint, folder);
  // All of it was made here.
  if (!stored.ok()) env_.fs.RemoveAll(env_.layout.JobFolder(job.id)).IgnoreError();
  return stored;
}

absl::StatusOr<v1::Checkpoint> JobCreator::MoveAndStore(const NewJob& job,
                                                        const v1::Checkpoint& checkpoint,
                                                        const std::string& folder) const {
  const std::string target = env_.layout.CheckpointFolder(job.id, checkpoint.step());
  LORSA_RETURN_IF_ERROR(env_.fs.CreateDirectories(DirectoryOf(target)));
  LORSA_RETURN_IF_ERROR(env_.fs.Rename(folder, target));
  LORSA_RETURN_IF_ERROR(SyncUpFrom(DirectoryOf(target)));
  return env_.catalog.ImportCheckpoint(job, checkpoint, env_.now());
}

}  // namespace lorsa::server

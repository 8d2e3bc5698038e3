#include "server/services/staged_uploads.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_name.h"

namespace lorsa::server {
namespace {

IncomingFile FileOf(const v1::StagedFileStart& start, const std::string& staging) {
  return {.folder = JoinPath(staging, start.folder()),
          .name = start.file(),
          .size_bytes = start.size_bytes(),
          .sha256 = start.sha256(),
          .offset = start.offset(),
          // The same step may be staged again with other counts, after its evaluation.
          .replaces = true};
}

absl::Status CheckStart(const v1::StagedFileStart& start, int64_t max_bytes) {
  std::vector<FieldViolation> violations = CheckIncomingFile(FileOf(start, ""), max_bytes);
  if (!StepOf(start.folder(), "folder").ok()) {
    violations.push_back({"folder", "must be named for its step: step-000001000"});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

}  // namespace

absl::StatusOr<const JobKind*> StagedUploads::KindOf(const JobRecord& job) const {
  const JobKind* const kind = kinds_.Find(job.job.kind());
  if (kind == nullptr) return absl::FailedPreconditionError(kinds_.Missing(job.job.kind()));
  return kind;
}

// One checkpoint is on its way at a time, so that no worker fills the disk.
absl::Status StagedUploads::DropAllBut(const std::string& staging, const std::string& folder) {
  // Not made anew if it is gone: a newer attempt, or the removal of the job, was here.
  const auto names = fs_.List(staging);
  if (absl::IsNotFound(names.status())) {
    return absl::FailedPreconditionError("the folder of this attempt is gone");
  }
  LORSA_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (name != folder) LORSA_RETURN_IF_ERROR(fs_.RemoveAll(JoinPath(staging, name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileReceiver>> StagedUploads::Receive(
    const AttemptKey& attempt, const v1::StagedFileStart& start) {
  LORSA_ASSIGN_OR_RETURN(const JobRecord job, catalog_.GetJob(attempt.job_id));
  LORSA_ASSIGN_OR_RETURN(const JobKind* const kind, KindOf(job));
  LORSA_ASSIGN_OR_RETURN(const int64_t max_bytes,
                         kind->MaxUploadBytes(job.job.resolved_spec(), start.file()));
  LORSA_RETURN_IF_ERROR(CheckStart(start, max_bytes));
  const std::string staging = layout_.StagingFolder(attempt.job_id, attempt.attempt);
  LORSA_RETURN_IF_ERROR(DropAllBut(staging, start.folder()));
  return files_.Receive(FileOf(start, staging));
}

absl::StatusOr<v1::Upload> StagedUploads::Describe(const AttemptKey& attempt,
                                                   const std::string& folder) const {
  LORSA_RETURN_IF_ERROR(StepOf(folder, "folder").status());
  LORSA_ASSIGN_OR_RETURN(const JobRecord job, catalog_.GetJob(attempt.job_id));
  LORSA_ASSIGN_OR_RETURN(const JobKind* const kind, KindOf(job));
  return files_.Describe(JoinPath(layout_.StagingFolder(attempt.job_id, attempt.attempt), folder),
                         [kind](const std::string& name) { return kind->IsCheckpointFile(name); });
}

}  // namespace lorsa::server

#include "server/services/staged_uploads.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "server/jobs/job_estimate.h"
#include "server/services/checkpoint_name.h"

namespace lorsa::server {
namespace {

// docs/checkpoint_format.md
constexpr const char* kCheckpointFiles[] = {"config.json", "lorsa.safetensors", "manifest.json",
                                            "state.json", "state.safetensors"};
constexpr int64_t kMaxJsonBytes = 1 << 20;

bool IsFileOfACheckpoint(const std::string& name) {
  return std::find(std::begin(kCheckpointFiles), std::end(kCheckpointFiles), name) !=
         std::end(kCheckpointFiles);
}

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
  if (!IsFileOfACheckpoint(start.file())) {
    violations.push_back({"file",
                          "must be lorsa.safetensors, state.safetensors, config.json, state.json "
                          "or manifest.json"});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

}  // namespace

absl::StatusOr<int64_t> StagedUploads::MaxBytes(const AttemptKey& attempt,
                                                const std::string& file) const {
  if (!absl::EndsWith(file, ".safetensors")) return kMaxJsonBytes;
  LORSA_ASSIGN_OR_RETURN(const JobRecord job, catalog_.GetJob(attempt.job_id));
  return EstimateCheckpointBytes(catalog_, job.job.resolved_spec());
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
  LORSA_ASSIGN_OR_RETURN(const int64_t max_bytes, MaxBytes(attempt, start.file()));
  LORSA_RETURN_IF_ERROR(CheckStart(start, max_bytes));
  const std::string staging = layout_.StagingFolder(attempt.job_id, attempt.attempt);
  LORSA_RETURN_IF_ERROR(DropAllBut(staging, start.folder()));
  return files_.Receive(FileOf(start, staging));
}

absl::StatusOr<v1::Upload> StagedUploads::Describe(const AttemptKey& attempt,
                                                   const std::string& folder) const {
  LORSA_RETURN_IF_ERROR(StepOf(folder, "folder").status());
  return files_.Describe(JoinPath(layout_.StagingFolder(attempt.job_id, attempt.attempt), folder),
                         IsFileOfACheckpoint);
}

}  // namespace lorsa::server

// The numbers are those of the life of an attempt in job_manager.h.
#include "server/jobs/attempt_starter.h"

#include <google/protobuf/text_format.h>
#include <spdlog/spdlog.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/jobs/attempt_endings.h"
#include "server/jobs/job_changes.h"
#include "server/jobs/job_file.h"
#include "server/jobs/lost_and_found.h"
#include "server/jobs/staging.h"
#include "server/model/job_state.h"
#include "server/model/spec_facts.h"

namespace lorsa::server {
namespace {

constexpr size_t kTokenBytes = 32;

// → STARTING, unless the job changed since it was looked at (a client cancelled it).
JobDecision BeginAttempt(const JobRecord& seen, const std::string& token) {
  return [revision = seen.job.revision(),
          hash = Sha256Hex(token)](const JobRecord& job) -> absl::StatusOr<JobChange> {
    if (job.job.revision() != revision) {
      return absl::AbortedError(absl::StrCat("job ", job.id, " has changed meanwhile"));
    }
    return JobChange{.state = v1::JOB_STATE_STARTING, .new_attempt_token_sha256 = hash};
  };
}

JobDecision RecordWorker(const AttemptKey& attempt, const ProcessIdentity& worker) {
  return [=](const JobRecord& job) -> absl::StatusOr<JobChange> {
    // A worker may be so quick that it has ended before its start is recorded.
    if (job.job.attempt() != attempt.attempt || !HasWorker(job.job.state())) {
      return StaleAttempt(attempt);
    }
    return JobChange{.reason = "WORKER_STARTED",
                     .message = absl::StrCat("the worker's pid is ", worker.pid),
                     .worker = worker};
  };
}

}  // namespace

absl::Status AttemptStarter::Start(const JobRecord& job) {
  const JobKind* const kind = env_.kinds.Find(job.job.kind());
  if (kind == nullptr) return absl::FailedPreconditionError(env_.kinds.Missing(job.job.kind()));
  const AttemptKey attempt{job.id, job.job.attempt() + 1};
  const std::string token = absl::BytesToHexString(env_.random_bytes(kTokenBytes));
  TidyEarlierAttempts(job);                                                              // 1
  LORSA_RETURN_IF_ERROR(ClearFolder(attempt));                                           // 1
  LORSA_RETURN_IF_ERROR(PrepareFolders(attempt));                                        // 1
  LORSA_RETURN_IF_ERROR(WriteJobFile(env_, job));                                        // 1
  LORSA_RETURN_IF_ERROR(WriteBootstrap(attempt, token));                                 // 1
  LORSA_RETURN_IF_ERROR(CommitChange(env_, job.id, BeginAttempt(job, token)).status());  // 2
  return Spawn(attempt, job, *kind);
}

// Best effort: the next attempt tries again. Comes first, since a full disk may be why there is a
// next attempt. One that never reached its machine leaves nothing: there may be one each minute.
void AttemptStarter::TidyEarlierAttempts(const JobRecord& job) {
  RemoveStaging(env_, {job.id, job.job.attempt()});
  if (job.job.reason() != kUnreachable) return;
  env_.fs.RemoveAll(env_.layout.AttemptFolder(job.id, job.job.attempt())).IgnoreError();
}

// There is one if a start was cut off before 2: no worker has run in it.
absl::Status AttemptStarter::ClearFolder(const AttemptKey& attempt) {
  const std::string folder = env_.layout.AttemptFolder(attempt.job_id, attempt.attempt);
  LORSA_ASSIGN_OR_RETURN(const bool ran,
                         env_.fs.Exists(env_.layout.LogFile(attempt.job_id, attempt.attempt)));
  if (ran) return SetAside(env_, folder, "the catalog does not know this attempt");
  return env_.fs.RemoveAll(folder);
}

// The folders must be there after a crash, since what is published is renamed between them.
absl::Status AttemptStarter::PrepareFolders(const AttemptKey& attempt) {
  const std::string job_folder = env_.layout.JobFolder(attempt.job_id);
  const std::string staging = env_.layout.StagingFolder(attempt.job_id, attempt.attempt);
  LORSA_RETURN_IF_ERROR(env_.fs.CreateDirectories(staging));
  LORSA_RETURN_IF_ERROR(env_.fs.CreateDirectories(env_.layout.CheckpointsFolder(attempt.job_id)));
  for (std::string folder = staging; folder.size() >= job_folder.size();
       folder = DirectoryOf(folder)) {
    LORSA_RETURN_IF_ERROR(env_.fs.SyncDirectory(folder));
  }
  LORSA_RETURN_IF_ERROR(env_.fs.SyncDirectory(DirectoryOf(job_folder)));
  return env_.fs.SyncDirectory(env_.layout.root());
}

absl::Status AttemptStarter::WriteBootstrap(const AttemptKey& attempt, const std::string& token) {
  v1::WorkerBootstrap bootstrap;
  bootstrap.set_job(absl::StrCat("jobs/", attempt.job_id));
  bootstrap.set_attempt(attempt.attempt);
  bootstrap.set_token(token);
  if (options_.worker_endpoint.empty()) {
    bootstrap.set_endpoint_file(env_.layout.EndpointFile());
    bootstrap.set_staging_folder(env_.layout.StagingFolder(attempt.job_id, attempt.attempt));
    bootstrap.set_outcome_file(env_.layout.OutcomeFile(attempt.job_id, attempt.attempt));
    bootstrap.set_checkpoints_folder(env_.layout.CheckpointsFolder(attempt.job_id));
    bootstrap.set_rollbacks_file(env_.layout.RollbacksFile(attempt.job_id));
  } else {
    bootstrap.set_endpoint(options_.worker_endpoint);
  }
  std::string text;
  google::protobuf::TextFormat::PrintToString(bootstrap, &text);
  return WriteFileAtomically(env_.fs, env_.layout.BootstrapFile(attempt.job_id, attempt.attempt),
                             text, /*mode=*/0600);
}

// Errors of the commits are not handed on: Poll finds the job STARTING and goes on from there.
absl::Status AttemptStarter::Spawn(const AttemptKey& attempt, const JobRecord& job,
                                   const JobKind& kind) {
  const absl::StatusOr<ProcessIdentity> worker = env_.launcher.Launch(  // 3
      {.bootstrap_file = env_.layout.BootstrapFile(attempt.job_id, attempt.attempt),
       .log_file = env_.layout.LogFile(attempt.job_id, attempt.attempt),
       .ranks = FactsOf(job.job.resolved_spec()).ranks,
       .command = kind.Command()});
  if (!worker.ok()) {
    const Loss loss{.cause = absl::StrCat("it could not be started: ", worker.status().message()),
                    .not_started = true,
                    .end = {.time = env_.now()}};
    CommitChange(env_, attempt.job_id, LossDecision(attempt.attempt, loss, options_)).IgnoreError();
    return worker.status();
  }
  CommitChange(env_, attempt.job_id, RecordWorker(attempt, *worker)).IgnoreError();  // 4
  return absl::OkStatus();
}

}  // namespace lorsa::server

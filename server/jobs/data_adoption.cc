// The numbers are those of the protocol in data_adoption.h.
#include "server/jobs/data_adoption.h"

#include <google/protobuf/text_format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/identifiers.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "job_spec/textproto.h"
#include "lorsa/v1/worker_service.pb.h"
#include "server/jobs/attempt_endings.h"
#include "server/jobs/checkpoint_contents.h"
#include "server/jobs/checkpoint_files.h"
#include "server/jobs/folder_generation.h"
#include "server/jobs/job_changes.h"
#include "server/jobs/job_file.h"
#include "server/jobs/job_requests.h"
#include "server/jobs/list_if_there.h"
#include "server/jobs/log_reader.h"
#include "server/jobs/lost_and_found.h"
#include "server/jobs/outcome_file.h"
#include "server/model/job_state.h"
#include "server/model/spec_facts.h"

namespace lorsa::server {
namespace {

constexpr size_t kMaxBootstrapBytes = 64 << 10;
constexpr int kNoLimit = std::numeric_limits<int>::max();

// An error that may pass by itself. What is damaged or missing stays so.
absl::Status MayPass(const absl::Status& status) {
  return IsDamage(status) ? absl::OkStatus() : status;
}

// 3a. A checkpoint that is whole, as far as its own files describe it.
absl::StatusOr<v1::Checkpoint> DescribeCheckpoint(FileSystem& fs, const std::string& folder,
                                                  int64_t step) {
  LORSA_ASSIGN_OR_RETURN(const std::string manifest_sha256,
                         Sha256OfFile(fs, JoinPath(folder, kManifestFile)));
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::CheckpointFile> files,
                         VerifyCheckpointFiles(fs, folder, manifest_sha256));
  v1::Checkpoint checkpoint;
  checkpoint.set_step(step);
  checkpoint.mutable_files()->Assign(files.begin(), files.end());
  const absl::StatusOr<CheckpointContents> contents = ReadCheckpointContents(fs, folder);
  LORSA_RETURN_IF_ERROR(MayPass(contents.status()));
  if (!contents.ok() || contents->step != step) return checkpoint;
  checkpoint.set_tokens(contents->tokens());
  if (contents->fvu.has_value() && contents->evaluated_step == step) {
    checkpoint.set_fvu(*contents->fvu);
  }
  return checkpoint;
}

// 3c. What the job was when its worker left with this outcome, as it was asked to.
v1::JobState StateBefore(const absl::StatusOr<v1::WorkerOutcome>& outcome) {
  if (!outcome.ok()) return v1::JOB_STATE_STARTING;
  switch (outcome->kind()) {
    case v1::WorkerOutcome::KIND_PAUSED:
      return v1::JOB_STATE_PAUSING;
    case v1::WorkerOutcome::KIND_CANCELLED:
      return v1::JOB_STATE_CANCELLING;
    default:
      return v1::JOB_STATE_RUNNING;
  }
}

}  // namespace

absl::StatusOr<std::set<std::string>> DataAdoption::Run() {
  LORSA_RETURN_IF_ERROR(CompareGenerations());  // 1
  if (older_) LORSA_RETURN_IF_ERROR(PrepareOlderCatalog());
  LORSA_ASSIGN_OR_RETURN(std::set<std::string> left, AdoptJobs());
  if (!left.empty()) return left;
  const absl::Status counted = CountStart();  // 4
  if (older_) LORSA_RETURN_IF_ERROR(counted);
  if (!counted.ok()) spdlog::warn("event=start_not_counted error=\"{}\"", counted.ToString());
  return left;
}

absl::Status DataAdoption::CompareGenerations() {
  LORSA_ASSIGN_OR_RETURN(const int64_t of_catalog, env_.catalog.Generation());
  LORSA_ASSIGN_OR_RETURN(const int64_t of_folder, ReadFolderGeneration(env_.fs, env_.layout));
  older_ = of_catalog == kGenerationOfCopy || of_catalog < of_folder;
  if (!older_) return absl::OkStatus();
  spdlog::warn(
      "event=catalog_older_than_data generation={} of_data={} message=\"what the data folder "
      "shows besides is adopted\"",
      of_catalog, of_folder);
  return absl::OkStatus();
}

absl::Status DataAdoption::PrepareOlderCatalog() {
  LORSA_ASSIGN_OR_RETURN(const std::vector<JobRecord> deleted, env_.catalog.DeletedJobs(kNoLimit));
  for (const JobRecord& job : deleted) deleted_[job.id] = job.job;
  LORSA_RETURN_IF_ERROR(env_.catalog.ForgetAllRemovedCheckpoints());
  return adopt_sets_();
}

absl::StatusOr<std::set<std::string>> DataAdoption::IdsOfJobs() const {
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         ListIfThere(env_.fs, env_.layout.JobsFolder()));
  std::set<std::string> ids(names.begin(), names.end());
  if (!older_) return ids;
  LORSA_ASSIGN_OR_RETURN(const std::vector<StoredJob> known,
                         env_.catalog.ListJobs({.limit = kNoLimit}));
  for (const StoredJob& job : known) ids.insert(job.record.id);
  return ids;
}

absl::StatusOr<std::set<std::string>> DataAdoption::AdoptJobs() {
  LORSA_ASSIGN_OR_RETURN(const std::set<std::string> ids, IdsOfJobs());
  std::set<std::string> left;
  for (const std::string& id : ids) {
    if (!ValidateId("job id", id).ok()) continue;  // Nothing of lorsad's.
    const absl::Status adopted = AdoptFolder(id);
    if (adopted.ok()) continue;
    spdlog::warn("event=job_not_adopted job={} error=\"{}\"", id, adopted.ToString());
    if (older_) LORSA_RETURN_IF_ERROR(MayPass(adopted));
    left.insert(id);
  }
  return left;
}

absl::Status DataAdoption::AdoptFolder(const std::string& job_id) {
  LORSA_ASSIGN_OR_RETURN(const std::optional<v1::Job> file, ReadJobFile(env_, job_id));
  if (file.has_value()) {
    LORSA_ASSIGN_OR_RETURN(const bool of_another, IsOfAnotherJob(job_id, *file));
    if (of_another) LORSA_RETURN_IF_ERROR(PurgeRows(job_id));  // 2a
  }
  const absl::Status is_free = env_.catalog.CheckJobIdIsFree(job_id);
  if (absl::IsAlreadyExists(is_free)) return AdoptInto(job_id);
  if (absl::IsUnavailable(is_free)) return TendDeletedJob(job_id, file);
  LORSA_RETURN_IF_ERROR(is_free);
  LORSA_ASSIGN_OR_RETURN(const bool made, MakeAgain(job_id, file));
  if (made) return AdoptInto(job_id);
  return SetAside(env_, env_.layout.JobFolder(job_id), "the catalog does not know this job");  // 2c
}

absl::StatusOr<bool> DataAdoption::IsOfAnotherJob(const std::string& job_id,
                                                  const v1::Job& file) const {
  const absl::StatusOr<JobRecord> known = env_.catalog.GetJob(job_id);
  if (known.ok()) return CreateTimeOf(known->job) != CreateTimeOf(file);
  if (!absl::IsNotFound(known.status())) return known.status();
  const auto deleted = deleted_.find(job_id);
  return deleted != deleted_.end() && CreateTimeOf(deleted->second) != CreateTimeOf(file);
}

absl::Status DataAdoption::PurgeRows(const std::string& job_id) {
  const absl::Status deleted =
      env_.catalog.DeleteJob(job_id, [](const JobRecord&) { return absl::OkStatus(); });
  if (!deleted.ok() && !absl::IsNotFound(deleted)) return deleted;
  for (bool done = false; !done;) {
    LORSA_ASSIGN_OR_RETURN(done, env_.catalog.PurgeJob(job_id));
  }
  return absl::OkStatus();
}

absl::Status DataAdoption::TendDeletedJob(const std::string& job_id,
                                          const std::optional<v1::Job>& file) {
  if (!older_ || file.has_value()) return absl::OkStatus();
  return SetAside(env_, env_.layout.JobFolder(job_id), "it may be of a newer job than the deleted");
}

absl::StatusOr<bool> DataAdoption::MakeAgain(const std::string& job_id,
                                             const std::optional<v1::Job>& file) {
  if (!file.has_value()) return MakeImported(job_id, env_.now());
  const absl::Status made =
      env_.catalog.CreateJob(NewJobOf(job_id, *file), CreateTimeOf(*file)).status();  // 2a
  // Its file keeps the time at which it was created, so the next start recognises it.
  if (absl::IsFailedPrecondition(made)) return MakeImported(job_id, CreateTimeOf(*file));  // 2b
  LORSA_RETURN_IF_ERROR(made);
  spdlog::warn("event=job_adopted job={}", job_id);
  return true;
}

absl::StatusOr<bool> DataAdoption::MakeImported(const std::string& job_id, absl::Time created) {
  LORSA_ASSIGN_OR_RETURN(const bool ran, env_.fs.Exists(env_.layout.AttemptsFolder(job_id)));
  if (!ran && !older_) return false;
  LORSA_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsInFolder(job_id));
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const std::string folder = env_.layout.CheckpointFolder(job_id, *step);
    const auto checkpoint = DescribeCheckpoint(env_.fs, folder, *step);
    LORSA_RETURN_IF_ERROR(MayPass(checkpoint.status()));
    const auto contents = ReadCheckpointContents(env_.fs, folder);
    LORSA_RETURN_IF_ERROR(MayPass(contents.status()));
    if (!checkpoint.ok() || !contents.ok()) continue;
    LORSA_RETURN_IF_ERROR(
        env_.catalog.ImportCheckpoint(JobOfCheckpoint(job_id, *contents), *checkpoint, created)
            .status());
    spdlog::warn("event=job_adopted job={} as=imported", job_id);
    return true;
  }
  return false;
}

absl::Status DataAdoption::AdoptInto(const std::string& job_id) {
  if (older_) {
    LORSA_RETURN_IF_ERROR(SetAside(env_, env_.layout.TrashFolder(job_id),
                                   "the catalog is older than the data"));  // 3b
  }
  LORSA_RETURN_IF_ERROR(AdoptCheckpoints(job_id));
  return AdoptAttempt(job_id);
}

absl::StatusOr<std::vector<int64_t>> DataAdoption::StepsInFolder(const std::string& job_id) const {
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         ListIfThere(env_.fs, env_.layout.CheckpointsFolder(job_id)));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    if (const std::optional<int64_t> step = StepOfCheckpointId(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

absl::Status DataAdoption::AdoptCheckpoints(const std::string& job_id) {
  LORSA_ASSIGN_OR_RETURN(const std::vector<v1::Checkpoint> known,
                         env_.catalog.ListCheckpoints(job_id));
  LORSA_ASSIGN_OR_RETURN(std::set<int64_t> to_leave, env_.catalog.RemovedCheckpoints(job_id));
  LORSA_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, StepsInFolder(job_id));
  for (const v1::Checkpoint& checkpoint : known) {
    if (!std::binary_search(steps.begin(), steps.end(), checkpoint.step())) {
      LORSA_RETURN_IF_ERROR(DropCheckpoint(job_id, checkpoint));  // 3b
    }
    const std::string folder = env_.layout.CheckpointFolder(job_id, checkpoint.step());
    if (!older_ || IsFolderOf(env_.fs, folder, checkpoint)) to_leave.insert(checkpoint.step());
  }
  for (const int64_t step : steps) {
    if (!to_leave.contains(step)) LORSA_RETURN_IF_ERROR(AdoptCheckpoint(job_id, step));  // 3a
  }
  return absl::OkStatus();
}

absl::Status DataAdoption::AdoptCheckpoint(const std::string& job_id, int64_t step) {
  const absl::StatusOr<v1::Checkpoint> checkpoint =
      DescribeCheckpoint(env_.fs, env_.layout.CheckpointFolder(job_id, step), step);
  if (IsDamage(checkpoint.status())) {
    spdlog::warn("event=checkpoint_not_adopted job={} step={} error=\"{}\"", job_id, step,
                 checkpoint.status().ToString());
    return absl::OkStatus();
  }
  LORSA_RETURN_IF_ERROR(checkpoint.status());
  LORSA_RETURN_IF_ERROR(env_.catalog.AdoptCheckpoint(job_id, *checkpoint, env_.now()));
  spdlog::warn("event=checkpoint_adopted job={} step={}", job_id, step);
  return absl::OkStatus();
}

absl::Status DataAdoption::DropCheckpoint(const std::string& job_id,
                                          const v1::Checkpoint& checkpoint) {
  if (!older_ || checkpoint.pinned()) return absl::OkStatus();
  spdlog::warn("event=checkpoint_dropped job={} step={} message=\"its folder is gone\"", job_id,
               checkpoint.step());
  return env_.catalog.DeleteCheckpoint(job_id, checkpoint.step(), CheckNotPinned);
}

absl::StatusOr<int> DataAdoption::NewestAttempt(const std::string& job_id) const {
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         ListIfThere(env_.fs, env_.layout.AttemptsFolder(job_id)));
  int newest = 0;
  for (const std::string& name : names) {
    int attempt = 0;
    if (!absl::SimpleAtoi(name, &attempt) || attempt <= newest) continue;
    LORSA_ASSIGN_OR_RETURN(const bool ran, env_.fs.Exists(env_.layout.LogFile(job_id, attempt)));
    if (ran) newest = attempt;
  }
  return newest;
}

absl::StatusOr<std::string> DataAdoption::TokenSha256(const AttemptKey& attempt) const {
  const std::string path = env_.layout.BootstrapFile(attempt.job_id, attempt.attempt);
  const absl::StatusOr<std::string> text = ReadFile(env_.fs, path, kMaxBootstrapBytes);
  LORSA_RETURN_IF_ERROR(MayPass(text.status()));
  v1::WorkerBootstrap bootstrap;
  if (!text.ok() || !ParseTextproto(path, *text, bootstrap).ok()) return "";
  return Sha256Hex(bootstrap.token());
}

absl::Status DataAdoption::AdoptAttempt(const std::string& job_id) {
  LORSA_ASSIGN_OR_RETURN(const JobRecord job, env_.catalog.GetJob(job_id));
  // A job made of its checkpoint does not train: the attempts belong to the job that is gone.
  if (FactsOf(job.job.resolved_spec()).never_runs) return absl::OkStatus();
  LORSA_ASSIGN_OR_RETURN(const int newest, NewestAttempt(job_id));
  const bool is_known = newest <= job.job.attempt();
  if (is_known && !(older_ && newest == job.job.attempt() && HasWorker(job.job.state()))) {
    return absl::OkStatus();
  }
  const AttemptKey attempt{job_id, newest};
  const auto outcome = ReadOutcome(env_.fs, env_.layout.OutcomeFile(job_id, newest));
  LORSA_RETURN_IF_ERROR(MayPass(outcome.status()));
  if (is_known && !outcome.ok()) return absl::OkStatus();  // The scheduler looks for its worker.
  LORSA_ASSIGN_OR_RETURN(const std::string token_sha256, TokenSha256(attempt));
  LORSA_RETURN_IF_ERROR(env_.catalog.AdoptAttempt(
      job_id, {.attempt = newest, .token_sha256 = token_sha256, .state = StateBefore(outcome)},
      env_.now()));  // 3c
  spdlog::warn("event=attempt_adopted job={} attempt={}", job_id, newest);
  if (!outcome.ok()) return absl::OkStatus();
  const AttemptEnd end{.time = env_.now(),
                       .log_tail = LogTail(env_.fs, env_.layout.LogFile(job_id, newest))};
  return CommitChange(env_, job_id, OutcomeDecision(newest, *outcome, end, options_)).status();
}

absl::Status DataAdoption::CountStart() {
  LORSA_ASSIGN_OR_RETURN(const int64_t of_catalog, env_.catalog.Generation());
  LORSA_ASSIGN_OR_RETURN(const int64_t of_folder, ReadFolderGeneration(env_.fs, env_.layout));
  const int64_t next = std::max(of_catalog, of_folder) + 1;
  LORSA_RETURN_IF_ERROR(env_.catalog.SetGeneration(next));
  return WriteFolderGeneration(env_.fs, env_.layout, next);
}

}  // namespace lorsa::server

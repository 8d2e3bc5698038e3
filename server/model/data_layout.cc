#include "server/model/data_layout.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/file_system.h"

namespace lorsa::server {

std::string DataLayout::LockFile() const { return JoinPath(root_, "lock"); }

std::string DataLayout::EndpointFile() const { return JoinPath(root_, "endpoint"); }

std::string DataLayout::SpareRoomFile() const { return JoinPath(root_, "spare-room"); }
std::string DataLayout::CatalogFile() const { return JoinPath(root_, "catalog.sqlite"); }

std::string DataLayout::GenerationFile() const { return JoinPath(root_, "generation"); }

std::string DataLayout::LostAndFoundFolder() const { return JoinPath(root_, "lost+found"); }

std::string DataLayout::SetsFolder() const { return JoinPath(root_, "sets"); }

std::string DataLayout::ImportFolder(absl::string_view job_id) const {
  return absl::StrCat(JoinPath(root_, "imports"), "/", job_id);
}

std::string DataLayout::JobsFolder() const { return JoinPath(root_, "jobs"); }

std::string DataLayout::JobFolder(absl::string_view job_id) const {
  return JoinPath(JobsFolder(), job_id);
}

std::string DataLayout::JobFile(absl::string_view job_id) const {
  return JoinPath(JobFolder(job_id), "job.textproto");
}

std::string DataLayout::AttemptsFolder(absl::string_view job_id) const {
  return JoinPath(JobFolder(job_id), "attempts");
}

std::string DataLayout::AttemptFolder(absl::string_view job_id, int attempt) const {
  return absl::StrFormat("%s/%04d", AttemptsFolder(job_id), attempt);
}

std::string DataLayout::BootstrapFile(absl::string_view job_id, int attempt) const {
  return JoinPath(AttemptFolder(job_id, attempt), "bootstrap.textproto");
}

std::string DataLayout::LogFile(absl::string_view job_id, int attempt) const {
  return JoinPath(AttemptFolder(job_id, attempt), "worker.log");
}

std::string DataLayout::OutcomeFile(absl::string_view job_id, int attempt) const {
  return JoinPath(AttemptFolder(job_id, attempt), "outcome.textproto");
}

std::string DataLayout::StagingFolder(absl::string_view job_id, int attempt) const {
  return JoinPath(AttemptFolder(job_id, attempt), "staging");
}

std::string DataLayout::CheckpointsFolder(absl::string_view job_id) const {
  return JoinPath(JobFolder(job_id), "checkpoints");
}

std::string DataLayout::CheckpointFolder(absl::string_view job_id, int64_t step) const {
  return JoinPath(CheckpointsFolder(job_id), CheckpointId(step));
}

std::string DataLayout::InitialCheckpointFolder(absl::string_view job_id) const {
  return JoinPath(JobFolder(job_id), "initial_checkpoint");
}

std::string DataLayout::TrashFolder(absl::string_view job_id) const {
  return JoinPath(JobFolder(job_id), "trash");
}

std::string DataLayout::DamagedFolder(absl::string_view job_id) const {
  return JoinPath(JobFolder(job_id), "damaged");
}

std::string DataLayout::RollbacksFile(absl::string_view job_id) const {
  return JoinPath(JobFolder(job_id), "rollbacks.json");
}

std::string JobIdOfCheckpoint(absl::string_view name) {
  absl::ConsumePrefix(&name, "jobs/");
  return std::string(name.substr(0, name.find('/')));
}

std::string CheckpointId(int64_t step) { return absl::StrFormat("step-%09d", step); }

std::optional<int64_t> StepOfCheckpointId(absl::string_view id) {
  int64_t step = 0;
  absl::string_view digits = id;
  if (!absl::ConsumePrefix(&digits, "step-") || !absl::SimpleAtoi(digits, &step) || step < 0 ||
      CheckpointId(step) != id) {
    return std::nullopt;
  }
  return step;
}

}  // namespace lorsa::server

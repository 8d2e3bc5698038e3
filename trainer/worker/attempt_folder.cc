#include "trainer/worker/attempt_folder.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "spdlog/spdlog.h"

namespace lorsa::worker {
namespace {

constexpr absl::string_view kInfix = ".attempt-";

std::string NameOf(const std::string& job_id, int attempt) {
  return absl::StrFormat("%s%s%04d", job_id, kInfix, attempt);
}

// Whether `name` is that of an attempt of the job up to `newest`.
bool IsOfJob(const std::string& name, const std::string& job_id, int newest) {
  const size_t split = name.rfind(kInfix.data());
  int attempt = 0;
  return split != std::string::npos && name.substr(0, split) == job_id &&
         absl::SimpleAtoi(name.substr(split + kInfix.size()), &attempt) && attempt <= newest &&
         NameOf(job_id, attempt) == name;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttemptFolder>> AttemptFolder::Create(
    FileSystem& fs, const std::string& scratch, const v1::WorkerBootstrap& attempt) {
  LORSA_ASSIGN_OR_RETURN(const std::string job_id, IdFromName("jobs", attempt.job()));
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(scratch));
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(scratch));
  for (const std::string& name : names) {
    if (!IsOfJob(name, job_id, attempt.attempt())) continue;
    LORSA_RETURN_IF_ERROR(fs.RemoveAll(JoinPath(scratch, name)));
  }
  std::unique_ptr<AttemptFolder> folder(
      new AttemptFolder(fs, JoinPath(scratch, NameOf(job_id, attempt.attempt()))));
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(folder->staging_folder()));
  return folder;
}

AttemptFolder::~AttemptFolder() {
  if (const absl::Status removed = fs_.RemoveAll(path_); !removed.ok()) {
    spdlog::warn("event=scratch_not_removed error=\"{}\"", removed.ToString());
  }
}

}  // namespace lorsa::worker

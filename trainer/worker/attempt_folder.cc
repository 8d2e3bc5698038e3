#include "trainer/worker/attempt_folder.h"

#include <unistd.h>

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "spdlog/spdlog.h"

namespace lorsa::worker {
namespace {

constexpr absl::string_view kInfix = ".attempt-";
// The server waits for this worker. On a file system without locks, folders of killed ones stay.
const LeaseTimes kNoWait = {.patience = absl::ZeroDuration()};

std::string NameOf(const std::string& job_id, int attempt, int pid) {
  return absl::StrFormat("%s%s%04d.%d", job_id, kInfix, attempt, pid);
}

// Whether `name` is that of a worker of the job.
bool IsOfJob(const std::string& name, const std::string& job_id) {
  const size_t split = name.rfind(kInfix.data());
  if (split == std::string::npos || name.substr(0, split) != job_id) return false;
  const std::vector<std::string> numbers = absl::StrSplit(name.substr(split + kInfix.size()), '.');
  int attempt = 0, pid = 0;
  return numbers.size() == 2 && absl::SimpleAtoi(numbers[0], &attempt) &&
         absl::SimpleAtoi(numbers[1], &pid) && NameOf(job_id, attempt, pid) == name;
}

std::string LockOf(const std::string& folder) { return JoinPath(folder, "lock"); }

}  // namespace

absl::StatusOr<std::unique_ptr<AttemptFolder>> AttemptFolder::Create(
    FileSystem& fs, const std::string& scratch, const v1::WorkerBootstrap& attempt) {
  LORSA_ASSIGN_OR_RETURN(const std::string job_id, IdFromName("jobs", attempt.job()));
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(scratch));
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(scratch));
  for (const std::string& name : names) {
    const std::string path = JoinPath(scratch, name);
    if (!IsOfJob(name, job_id)) continue;
    if (!FolderLock::Acquire(LockOf(path), kNoWait).ok()) continue;  // its worker may live
    LORSA_RETURN_IF_ERROR(fs.RemoveAll(path));
  }
  std::unique_ptr<AttemptFolder> folder(
      new AttemptFolder(fs, JoinPath(scratch, NameOf(job_id, attempt.attempt(), ::getpid()))));
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(folder->staging_folder()));
  LORSA_ASSIGN_OR_RETURN(folder->lock_, FolderLock::Acquire(LockOf(folder->path_)));
  return folder;
}

AttemptFolder::~AttemptFolder() {
  if (const absl::Status removed = fs_.RemoveAll(path_); !removed.ok()) {
    spdlog::warn("event=scratch_not_removed error=\"{}\"", removed.ToString());
  }
}

}  // namespace lorsa::worker

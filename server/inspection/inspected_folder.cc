#include "server/inspection/inspected_folder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

// Longer than a tick of the clock by which file systems tell times of change.
constexpr absl::Duration kTick = absl::Milliseconds(20);

}  // namespace

// Two changes within a tick give one version. So no change may be as recent as a tick when the
// version is noted.
InspectedFolder::InspectedFolder(FileSystem& fs, std::string folder)
    : ForwardingFileSystem(fs), folder_(std::move(folder)) {
  NoteVersions();
  const int64_t recent = absl::ToUnixNanos(absl::Now() - kTick);
  if (std::none_of(files_.begin(), files_.end(),
                   [&](const auto& entry) { return entry.second.version.change_ns > recent; })) {
    return;
  }
  absl::SleepFor(kTick);
  NoteVersions();
}

// What cannot be listed or opened is left out, and refused for that later.
void InspectedFolder::NoteVersions() {
  files_.clear();
  const auto names = next().List(folder_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string path = JoinPath(folder_, name);
    const auto file = next().OpenForRead(path);
    if (!file.ok()) continue;
    if (const auto version = VersionOf(**file); version.ok()) files_[path] = {.version = *version};
  }
}

void InspectedFolder::Parsed(const std::string& name) {
  const auto found = files_.find(JoinPath(folder_, name));
  if (found != files_.end()) found->second.parsed = true;
}

int64_t InspectedFolder::size() const {
  int64_t bytes = 0;
  for (const auto& [path, file] : files_) bytes += file.version.size;
  return bytes;
}

bool InspectedFolder::IsAsParsed(const std::string& path, const ReadableFile& file) const {
  const auto found = files_.find(path);
  if (found == files_.end() || !found->second.parsed) return false;
  const absl::StatusOr<FileVersion> version = VersionOf(file);
  return version.ok() && *version == found->second.version;
}

bool InspectedFolder::IsUnchanged() const {
  return std::all_of(files_.begin(), files_.end(), [this](const auto& entry) {
    if (!entry.second.parsed) return true;
    const auto file = next().OpenForRead(entry.first);
    return file.ok() && IsAsParsed(entry.first, **file);
  });
}

absl::StatusOr<std::unique_ptr<ReadableFile>> InspectedFolder::OpenForRead(
    const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, next().OpenForRead(path));
  if (IsAsParsed(path, *file)) return file;
  const absl::MutexLock lock(&mutex_);
  if (written_.contains(path)) return file;
  return absl::UnavailableError(absl::StrCat(
      path,
      ": came or changed while its folder was being read; try again once nobody writes there"));
}

absl::StatusOr<std::unique_ptr<WritableFile>> InspectedFolder::Create(const std::string& path,
                                                                      mode_t mode) {
  LORSA_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, next().Create(path, mode));
  NoteWritten(path);
  return file;
}

absl::Status InspectedFolder::Remove(const std::string& path) {
  absl::Status removed = next().Remove(path);
  if (removed.ok() || absl::IsNotFound(removed)) NoteWritten(path);
  return removed;
}

void InspectedFolder::NoteWritten(const std::string& path) {
  const absl::MutexLock lock(&mutex_);
  written_.insert(path);
}

absl::StatusOr<std::unique_ptr<WritableFile>> InspectedFolder::OpenForAppend(
    const std::string& path, mode_t mode) {
  return next().OpenForAppend(path, mode);
}

absl::Status InspectedFolder::Rename(const std::string& from, const std::string& to) {
  LORSA_RETURN_IF_ERROR(next().Rename(from, to));
  const absl::MutexLock lock(&mutex_);
  if (written_.erase(from) > 0) written_.insert(to);
  return absl::OkStatus();
}

}  // namespace lorsa::server

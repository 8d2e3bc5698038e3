#include "server/jobs/lost_and_found.h"

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/status_macros.h"

namespace lorsa::server {
namespace {

// A place in lost+found where nothing is yet.
absl::StatusOr<std::string> FreePlace(FileSystem& fs, const DataLayout& layout, absl::Time now,
                                      const std::string& path) {
  const std::string below(absl::StripPrefix(path, layout.root() + "/"));
  const std::string time = absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone());
  for (int i = 1;; ++i) {
    const std::string folder = i == 1 ? time : absl::StrCat(time, "-", i);
    std::string place = JoinPath(JoinPath(layout.LostAndFoundFolder(), folder), below);
    LORSA_ASSIGN_OR_RETURN(const bool taken, fs.Exists(place));
    if (!taken) return place;
  }
}

}  // namespace

absl::Status SetAside(FileSystem& fs, const DataLayout& layout, absl::Time time,
                      const std::string& path, absl::string_view why) {
  LORSA_ASSIGN_OR_RETURN(const bool exists, fs.Exists(path));
  if (!exists) return absl::OkStatus();
  LORSA_ASSIGN_OR_RETURN(const std::string place, FreePlace(fs, layout, time, path));
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(DirectoryOf(place)));
  LORSA_RETURN_IF_ERROR(fs.Rename(path, place));
  spdlog::warn("event=set_aside path={} to={} why=\"{}\"", path, place, std::string(why));
  for (std::string folder = DirectoryOf(place); folder.size() >= layout.root().size();
       folder = DirectoryOf(folder)) {
    LORSA_RETURN_IF_ERROR(fs.SyncDirectory(folder));
  }
  return fs.SyncDirectory(DirectoryOf(path));
}

}  // namespace lorsa::server

#include "base/rooted_file_system.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

std::vector<std::string> Normal(std::vector<std::string> roots) {
  for (std::string& root : roots) {
    root = std::filesystem::path(root).lexically_normal().string();
    if (root.size() > 1 && root.back() == '/') root.pop_back();
  }
  std::sort(roots.begin(), roots.end(),
            [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return roots;
}

// Whether `path` is `root` or lies below it; then `relative` is the rest.
bool IsBelow(const std::string& path, const std::string& root, std::string& relative) {
  if (!absl::StartsWith(path, root)) return false;
  const size_t rest = root == "/" ? 1 : root.size() + 1;
  if (path.size() > root.size() && path[rest - 1] != '/') return false;
  relative = path.size() <= rest ? "" : path.substr(rest);
  return true;
}

absl::Status CheckComponents(const std::string& relative, const std::string& path) {
  if (relative.empty()) return absl::OkStatus();
  for (const absl::string_view part : absl::StrSplit(relative, '/')) {
    if (!part.empty() && part != "." && part != "..") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("open ", path, ": a path must not hold \"..\", \".\" or an empty name"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Descriptor> WalkBeneath(int root, const std::string& relative,
                                       const std::string& path) {
  Descriptor folder(::openat(root, ".", kFolderFlags));
  if (folder.get() < 0) return ErrnoStatus(errno, "open", path);
  if (relative.empty()) return folder;
  LORSA_RETURN_IF_ERROR(CheckComponents(relative, path));
  const std::vector<std::string> parts = absl::StrSplit(relative, '/');
  for (const std::string& part : parts) {
    Descriptor next(::openat(folder.get(), part.c_str(), kFolderFlags | O_NOFOLLOW));
    if (next.get() < 0) {
      return FolderError(errno, "open", {.folder = folder.get(), .name = part, .path = path});
    }
    folder = std::move(next);
  }
  return folder;
}

absl::StatusOr<Descriptor> OpenFolderBeneath(int root, const std::string& relative,
                                             const std::string& path) {
  struct open_how how = {};
  how.flags = kFolderFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  LORSA_RETURN_IF_ERROR(CheckComponents(relative, path));
  const char* name = relative.empty() ? "." : relative.c_str();
  const int fd = static_cast<int>(::syscall(SYS_openat2, root, name, &how, sizeof(how)));
  if (fd >= 0) return Descriptor(fd);
  // Kernels before 5.6 lack it, and sandboxes of old forbid what they do not know.
  if (errno == ENOSYS || errno == EPERM) return WalkBeneath(root, relative, path);
  return ErrnoStatus(errno, "open", path);
}

RootedFileSystem::RootedFileSystem(std::vector<std::string> roots)
    : roots_(Normal(std::move(roots))) {}

absl::StatusOr<RootedFileSystem::Place> RootedFileSystem::Locate(const std::string& path) const {
  std::string relative;
  const auto root = std::find_if(roots_.begin(), roots_.end(), [&](const std::string& candidate) {
    return IsBelow(path, candidate, relative);
  });
  if (root == roots_.end()) {
    return absl::PermissionDeniedError(
        absl::StrCat("open ", path, ": it lies outside of the server's folders"));
  }
  LORSA_RETURN_IF_ERROR(CheckComponents(relative, path));
  const Descriptor root_folder(::open(root->c_str(), kFolderFlags));
  if (root_folder.get() < 0) return ErrnoStatus(errno, "open", *root);
  const size_t slash = relative.rfind('/');
  const std::string parent = slash == std::string::npos ? "" : relative.substr(0, slash);
  std::string name = slash == std::string::npos ? relative : relative.substr(slash + 1);
  if (name.empty()) name = ".";  // the root itself
  LORSA_ASSIGN_OR_RETURN(Descriptor folder, OpenFolderBeneath(root_folder.get(), parent, path));
  const int fd = folder.get();
  return Place{
      .folder = std::move(folder),
      .at = {.folder = fd, .name = std::move(name), .path = path, .follow_last_link = false}};
}

absl::StatusOr<std::unique_ptr<WritableFile>> RootedFileSystem::Create(const std::string& path,
                                                                       mode_t mode) {
  LORSA_ASSIGN_OR_RETURN(const Place place, Locate(path));
  return CreateAt(place.at, mode);
}

absl::StatusOr<std::unique_ptr<WritableFile>> RootedFileSystem::OpenForAppend(
    const std::string& path, mode_t mode) {
  LORSA_ASSIGN_OR_RETURN(const Place place, Locate(path));
  return OpenForAppendAt(place.at, mode);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> RootedFileSystem::OpenForRead(
    const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const Place place, Locate(path));
  return OpenForReadAt(place.at);
}

absl::Status RootedFileSystem::SyncFile(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const Place place, Locate(path));
  return SyncFileAt(place.at);
}

absl::Status RootedFileSystem::SyncDirectory(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const Place place, Locate(path));
  return SyncDirectoryAt(place.at);
}

absl::Status RootedFileSystem::Rename(const std::string& from, const std::string& to) {
  LORSA_ASSIGN_OR_RETURN(const Place source, Locate(from));
  LORSA_ASSIGN_OR_RETURN(const Place target, Locate(to));
  return RenameAt(source.at, target.at);
}

absl::Status RootedFileSystem::CreateFolder(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const Place place, Locate(path));
  const PathAt& at = place.at;
  if (::mkdirat(at.folder, at.name.c_str(), 0777) == 0) return absl::OkStatus();
  const int error = errno;
  struct stat info;
  if (error != EEXIST || ::fstatat(at.folder, at.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return ErrnoStatus(error, "create folder", path);
  }
  if (S_ISDIR(info.st_mode)) return absl::OkStatus();
  return ErrnoStatus(S_ISLNK(info.st_mode) ? ELOOP : EEXIST, "create folder", path);
}

absl::Status RootedFileSystem::CreateDirectories(const std::string& path) {
  const absl::Status created = CreateFolder(path);
  const bool is_root = std::find(roots_.begin(), roots_.end(), path) != roots_.end();
  if (!absl::IsNotFound(created) || is_root) return created;
  LORSA_RETURN_IF_ERROR(CreateDirectories(DirectoryOf(path)));
  return CreateFolder(path);
}

absl::Status RootedFileSystem::Remove(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const Place place, Locate(path));
  return RemoveAt(place.at);
}

absl::Status RootedFileSystem::RemoveAll(const std::string& path) {
  const auto place = Locate(path);
  if (absl::IsNotFound(place.status())) return absl::OkStatus();
  LORSA_RETURN_IF_ERROR(place.status());
  return RemoveAllAt(place->at);
}

absl::StatusOr<bool> RootedFileSystem::Exists(const std::string& path) {
  const auto place = Locate(path);
  if (absl::IsNotFound(place.status())) return false;
  LORSA_RETURN_IF_ERROR(place.status());
  return ExistsAt(place->at);
}

absl::StatusOr<std::vector<std::string>> RootedFileSystem::List(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const Place place, Locate(path));
  return ListAt(place.at);
}

absl::StatusOr<uint64_t> RootedFileSystem::FreeBytes(const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const Place place, Locate(path));
  return FreeBytesAt(place.at);
}

}  // namespace lorsa

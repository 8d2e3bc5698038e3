// Atomic replacement of a file (WriteFileAtomically):
//   1. write the contents to `path`.tmp
//   2. fsync the file, close it
//   3. rename it over `path`
//   4. fsync the folder, so that the rename itself is durable
// A crash before 3 leaves the old file and perhaps a .tmp, which the next write truncates.
#include "base/file_system.h"

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/path_at.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

// Where the system finds a path.
PathAt Plain(const std::string& path) { return {.folder = AT_FDCWD, .name = path, .path = path}; }

absl::Status WriteAndSync(FileSystem& fs, const std::string& path, absl::string_view contents,
                          mode_t mode) {
  LORSA_ASSIGN_OR_RETURN(auto file, fs.Create(path, mode));
  LORSA_RETURN_IF_ERROR(file->Append(contents));
  LORSA_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFileSystem::Create(const std::string& path,
                                                                      mode_t mode) {
  return CreateAt(Plain(path), mode);
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFileSystem::OpenForAppend(
    const std::string& path, mode_t mode) {
  return OpenForAppendAt(Plain(path), mode);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> PosixFileSystem::OpenForRead(
    const std::string& path) {
  return OpenForReadAt(Plain(path));
}

absl::Status PosixFileSystem::SyncFile(const std::string& path) { return SyncFileAt(Plain(path)); }

absl::Status PosixFileSystem::SyncDirectory(const std::string& path) {
  return SyncDirectoryAt(Plain(path));
}

absl::Status PosixFileSystem::Rename(const std::string& from, const std::string& to) {
  return RenameAt(Plain(from), Plain(to));
}

absl::Status PosixFileSystem::CreateDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), "create folder", path);
  return absl::OkStatus();
}

absl::Status PosixFileSystem::Remove(const std::string& path) { return RemoveAt(Plain(path)); }

absl::Status PosixFileSystem::RemoveAll(const std::string& path) {
  return RemoveAllAt(Plain(path));
}

absl::StatusOr<bool> PosixFileSystem::Exists(const std::string& path) {
  return ExistsAt(Plain(path));
}

absl::StatusOr<std::vector<std::string>> PosixFileSystem::List(const std::string& path) {
  return ListAt(Plain(path));
}

absl::StatusOr<uint64_t> PosixFileSystem::FreeBytes(const std::string& path) {
  return FreeBytesAt(Plain(path));
}

absl::Status WriteFileAtomically(FileSystem& fs, const std::string& path,
                                 absl::string_view contents, mode_t mode) {
  const std::string temporary = path + ".tmp";
  absl::Status status = WriteAndSync(fs, temporary, contents, mode);  // 1, 2
  if (status.ok()) status = fs.Rename(temporary, path);               // 3
  if (!status.ok()) {
    fs.Remove(temporary).IgnoreError();  // The first error is the one to report.
    return status;
  }
  return fs.SyncDirectory(DirectoryOf(path));  // 4
}

absl::StatusOr<std::string> ReadFile(FileSystem& fs, const std::string& path, uint64_t max_bytes) {
  LORSA_ASSIGN_OR_RETURN(auto file, fs.OpenForRead(path));
  if (file->size() > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("read ", path, ": ", file->size(),
                                                     " bytes, more than the limit of ", max_bytes));
  }
  std::string contents(file->size(), '\0');
  LORSA_RETURN_IF_ERROR(file->ReadAt(0, absl::MakeSpan(contents)));
  return contents;
}

std::string DirectoryOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string JoinPath(absl::string_view a, absl::string_view b) {
  return (std::filesystem::path(std::string(a)) / std::string(b)).string();
}

absl::Status ErrnoStatus(int error, absl::string_view operation, absl::string_view path) {
  const std::string message =
      absl::StrCat(operation, " ", path, ": ", std::generic_category().message(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EEXIST:
    case ENOTEMPTY:
      return absl::AlreadyExistsError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EROFS:  // What a file system turns to after an error: nobody's permission is missing.
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    case EIO:
      return absl::UnavailableError(message);
    case ELOOP:
      return absl::InvalidArgumentError(message + " (symbolic links are not followed)");
    default:
      return absl::InternalError(message);
  }
}

}  // namespace lorsa

#include "base/path_at.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/file_version.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(Descriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Append(absl::string_view data) override {
    while (!data.empty()) {
      const ssize_t n = ::write(fd_.get(), data.data(), data.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "write", path_);
      data.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    if (::fsync(fd_.get()) != 0) return ErrnoStatus(errno, "fsync", path_);
    return absl::OkStatus();
  }
  absl::Status Close() override {
    if (::close(fd_.Release()) != 0) return ErrnoStatus(errno, "close", path_);
    return absl::OkStatus();
  }

 private:
  Descriptor fd_;
  std::string path_;
};

class PosixReadableFile final : public VersionedFile {
 public:
  PosixReadableFile(Descriptor fd, std::string path, uint64_t size)
      : fd_(std::move(fd)), path_(std::move(path)), size_(size) {}

  absl::Status ReadAt(uint64_t offset, absl::Span<char> out) const override {
    while (!out.empty()) {
      const ssize_t n = ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoStatus(errno, "read", path_);
      if (n == 0) {
        return absl::OutOfRangeError(absl::StrCat("read ", path_, ": the file ends at byte ",
                                                  offset, ", ", out.size(), " bytes early"));
      }
      offset += static_cast<uint64_t>(n);
      out.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }
  uint64_t size() const override { return size_; }
  absl::StatusOr<FileVersion> Version() const override {
    struct stat info;
    if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, "stat", path_);
    return FileVersion{
        .device = info.st_dev,
        .inode = info.st_ino,
        .size = info.st_size,
        .change_ns = absl::ToInt64Nanoseconds(absl::DurationFromTimespec(info.st_ctim))};
  }

 private:
  Descriptor fd_;
  std::string path_;
  uint64_t size_;
};

// The descriptor of a regular file. O_NONBLOCK: a FIFO planted under this name must not hang us
// before the type check.
absl::StatusOr<Descriptor> OpenRegular(const PathAt& at, int flags, mode_t mode,
                                       struct stat& info) {
  Descriptor fd(
      ::openat(at.folder, at.name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode));
  if (fd.get() < 0) return ErrnoStatus(errno, "open", at.path);
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "stat", at.path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("open ", at.path, ": not a regular file"));
  }
  return fd;
}

absl::StatusOr<std::unique_ptr<WritableFile>> OpenForWrite(const PathAt& at, int flags,
                                                           mode_t mode) {
  struct stat info;
  LORSA_ASSIGN_OR_RETURN(Descriptor fd, OpenRegular(at, O_WRONLY | O_CREAT | flags, mode, info));
  return std::make_unique<PosixWritableFile>(std::move(fd), at.path);
}

absl::StatusOr<Descriptor> OpenFolder(const PathAt& at, absl::string_view operation) {
  const int link_flag = at.follow_last_link ? 0 : O_NOFOLLOW;
  Descriptor fd(
      ::openat(at.folder, at.name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | link_flag));
  if (fd.get() < 0) return FolderError(errno, operation, at);
  return fd;
}

// For functions that take no descriptor of a folder.
std::string ProcPath(const PathAt& at) {
  if (at.folder == AT_FDCWD) return at.name;
  return absl::StrCat("/proc/self/fd/", at.folder, "/", at.name);
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

absl::Status FolderError(int error, absl::string_view operation, const PathAt& at) {
  struct stat info;
  if (error == ENOTDIR && ::fstatat(at.folder, at.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISLNK(info.st_mode)) {
    error = ELOOP;
  }
  return ErrnoStatus(error, operation, at.path);
}

absl::StatusOr<std::unique_ptr<WritableFile>> CreateAt(const PathAt& at, mode_t mode) {
  return OpenForWrite(at, O_TRUNC, mode);
}

absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppendAt(const PathAt& at, mode_t mode) {
  return OpenForWrite(at, O_APPEND, mode);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReadAt(const PathAt& at) {
  struct stat info;
  LORSA_ASSIGN_OR_RETURN(Descriptor fd, OpenRegular(at, O_RDONLY, 0, info));
  return std::make_unique<PosixReadableFile>(std::move(fd), at.path,
                                             static_cast<uint64_t>(info.st_size));
}

absl::Status SyncFileAt(const PathAt& at) {
  struct stat info;
  LORSA_ASSIGN_OR_RETURN(const Descriptor fd, OpenRegular(at, O_RDONLY, 0, info));
  if (::fsync(fd.get()) != 0) return ErrnoStatus(errno, "fsync", at.path);
  return absl::OkStatus();
}

absl::Status SyncDirectoryAt(const PathAt& at) {
  LORSA_ASSIGN_OR_RETURN(const Descriptor fd, OpenFolder(at, "open"));
  if (::fsync(fd.get()) != 0) return ErrnoStatus(errno, "fsync", at.path);
  return absl::OkStatus();
}

absl::Status RenameAt(const PathAt& from, const PathAt& to) {
  if (::renameat(from.folder, from.name.c_str(), to.folder, to.name.c_str()) != 0) {
    return ErrnoStatus(errno, "rename", absl::StrCat(from.path, " to ", to.path));
  }
  return absl::OkStatus();
}

absl::Status RemoveAt(const PathAt& at) {
  if (::unlinkat(at.folder, at.name.c_str(), 0) != 0) return ErrnoStatus(errno, "remove", at.path);
  return absl::OkStatus();
}

absl::Status RemoveAllAt(const PathAt& at) {
  std::error_code error;
  std::filesystem::remove_all(ProcPath(at), error);  // Removes links, does not follow them.
  if (error) return ErrnoStatus(error.value(), "remove folder", at.path);
  return absl::OkStatus();
}

absl::StatusOr<bool> ExistsAt(const PathAt& at) {
  struct stat info;
  if (::fstatat(at.folder, at.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return ErrnoStatus(errno, "stat", at.path);
}

absl::StatusOr<std::vector<std::string>> ListAt(const PathAt& at) {
  LORSA_ASSIGN_OR_RETURN(const Descriptor fd, OpenFolder(at, "list"));
  std::error_code error;
  std::filesystem::directory_iterator entry(absl::StrCat("/proc/self/fd/", fd.get()), error);
  std::vector<std::string> names;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return ErrnoStatus(error.value(), "list", at.path);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<uint64_t> FreeBytesAt(const PathAt& at) {
  LORSA_ASSIGN_OR_RETURN(const Descriptor fd, OpenFolder(at, "statvfs"));
  struct statvfs info;
  if (::fstatvfs(fd.get(), &info) != 0) return ErrnoStatus(errno, "statvfs", at.path);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace lorsa

// Atomic replacement of a file (WriteFileAtomically):
//   1. write the contents to `path`.tmp
//   2. fsync the file, close it
//   3. rename it over `path`
//   4. fsync the folder, so that the rename itself is durable
// A crash before 3 leaves the old file and perhaps a .tmp, which the next write truncates.
#include "base/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

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

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(int fd, std::string path, uint64_t size)
      : fd_(fd), path_(std::move(path)), size_(size) {}

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

 private:
  Descriptor fd_;
  std::string path_;
  uint64_t size_;
};

// The descriptor of a regular file. O_NONBLOCK: a FIFO planted under this name must not hang us
// before the type check.
absl::StatusOr<Descriptor> OpenRegular(const std::string& path, int flags, mode_t mode,
                                       struct stat& info) {
  Descriptor fd(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode));
  if (fd.get() < 0) return ErrnoStatus(errno, "open", path);
  if (::fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("open ", path, ": not a regular file"));
  }
  return fd;
}

absl::Status SyncPath(const std::string& path, int flags) {
  Descriptor fd(::open(path.c_str(), flags | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(errno, "open", path);
  if (::fsync(fd.get()) != 0) return ErrnoStatus(errno, "fsync", path);
  return absl::OkStatus();
}

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
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return ErrnoStatus(errno, "create", path);
  return std::make_unique<PosixWritableFile>(fd, path);
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFileSystem::OpenForAppend(
    const std::string& path, mode_t mode) {
  struct stat info;
  LORSA_ASSIGN_OR_RETURN(Descriptor fd,
                         OpenRegular(path, O_WRONLY | O_CREAT | O_APPEND, mode, info));
  return std::make_unique<PosixWritableFile>(fd.Release(), path);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> PosixFileSystem::OpenForRead(
    const std::string& path) {
  struct stat info;
  LORSA_ASSIGN_OR_RETURN(Descriptor fd, OpenRegular(path, O_RDONLY, 0, info));
  return std::make_unique<PosixReadableFile>(fd.Release(), path,
                                             static_cast<uint64_t>(info.st_size));
}

absl::Status PosixFileSystem::SyncFile(const std::string& path) { return SyncPath(path, O_RDONLY); }

absl::Status PosixFileSystem::SyncDirectory(const std::string& path) {
  return SyncPath(path, O_RDONLY | O_DIRECTORY);
}

absl::Status PosixFileSystem::Rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    return ErrnoStatus(errno, "rename", absl::StrCat(from, " to ", to));
  }
  return absl::OkStatus();
}

absl::Status PosixFileSystem::CreateDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), "create folder", path);
  return absl::OkStatus();
}

absl::Status PosixFileSystem::Remove(const std::string& path) {
  if (::unlink(path.c_str()) != 0) return ErrnoStatus(errno, "remove", path);
  return absl::OkStatus();
}

absl::Status PosixFileSystem::RemoveAll(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) return ErrnoStatus(error.value(), "remove folder", path);
  return absl::OkStatus();
}

absl::StatusOr<bool> PosixFileSystem::Exists(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return ErrnoStatus(errno, "stat", path);
}

absl::StatusOr<std::vector<std::string>> PosixFileSystem::List(const std::string& path) {
  std::error_code error;
  std::filesystem::directory_iterator entry(path, error);
  std::vector<std::string> names;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return ErrnoStatus(error.value(), "list", path);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<uint64_t> PosixFileSystem::FreeBytes(const std::string& path) {
  struct statvfs info;
  if (::statvfs(path.c_str(), &info) != 0) return ErrnoStatus(errno, "statvfs", path);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
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
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
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

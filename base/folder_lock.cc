#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/file_system.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

// Who holds the lock, by what it wrote into the file, which it may not have done yet.
std::string ReadHolder(int fd) {
  char text[32];
  const ssize_t size = ::pread(fd, text, sizeof(text), 0);
  const auto pid = absl::StripAsciiWhitespace(absl::string_view(text, size > 0 ? size : 0));
  return pid.empty() ? "another process" : absl::StrCat("the process with pid ", pid);
}

// For people. The lock holds without it, also on a disk that takes nothing.
void NotePid(int fd) {
  const std::string pid = absl::StrCat(::getpid(), "\n");
  if (::ftruncate(fd, 0) == 0) std::ignore = ::pwrite(fd, pid.data(), pid.size(), 0);
}

// A file that is there can be locked on a read-only disk too.
int Open(const std::string& path) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | kFlags, 0644);
  return fd < 0 && errno == EROFS ? ::open(path.c_str(), O_RDONLY | kFlags) : fd;
}

}  // namespace

bool LacksLocks(int error) { return error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP; }

int FolderLock::SystemFlock(int fd, int operation) { return ::flock(fd, operation); }

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Acquire(const std::string& path,
                                                                LeaseTimes lease_times,
                                                                const Flock& flock) {
  Descriptor file(Open(path));
  if (file.get() < 0) return ErrnoStatus(errno, "open", path);
  std::unique_ptr<FolderLease> lease;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return absl::FailedPreconditionError(absl::StrCat(DirectoryOf(path), " is in use by ",
                                                        ReadHolder(file.get()),
                                                        "; stop that one or name another folder"));
    }
    if (!LacksLocks(errno)) return ErrnoStatus(errno, "lock", path);
    LORSA_ASSIGN_OR_RETURN(lease, FolderLease::Acquire(path, lease_times));
  }
  NotePid(file.get());
  return std::unique_ptr<FolderLock>(new FolderLock(std::move(file), std::move(lease)));
}

}  // namespace lorsa

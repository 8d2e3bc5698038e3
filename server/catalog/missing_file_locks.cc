#include "server/catalog/missing_file_locks.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstdarg>

#include "base/folder_lock.h"

namespace lorsa::server {
namespace {

// As SQLite calls it: at most one argument, an int or a pointer.
int FcntlOrGrant(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const int result = ::fcntl(fd, command, argument);
  if (result == 0 || !LacksLocks(errno)) return result;
  if (command == F_SETLK || command == F_SETLKW) return 0;
  if (command != F_GETLK) return result;
  static_cast<struct flock*>(argument)->l_type = F_UNLCK;
  return 0;
}

}  // namespace

void GrantMissingFileLocks() {
  sqlite3_vfs* const files = sqlite3_vfs_find(nullptr);
  files->xSetSystemCall(files, "fcntl", reinterpret_cast<sqlite3_syscall_ptr>(FcntlOrGrant));
}

}  // namespace lorsa::server

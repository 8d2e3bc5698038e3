#include "base/spawn_settings.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_system.h"

namespace lorsa {

SpawnSettings::SpawnSettings() {
  posix_spawn_file_actions_init(&actions_);
  posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawnattr_init(&attributes_);
  // A server blocks the signals that it waits for, and ignores SIGPIPE; both would be inherited.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes_, &none);
  posix_spawnattr_setsigdefault(&attributes_, &all);
  posix_spawnattr_setflags(&attributes_,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

SpawnSettings::~SpawnSettings() {
  posix_spawn_file_actions_destroy(&actions_);
  posix_spawnattr_destroy(&attributes_);
}

void SpawnSettings::ReadInputFrom(const std::string& file) {
  posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, file.c_str(), O_RDONLY, 0);
}

void SpawnSettings::AppendOutputTo(const std::string& file) {
  posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, file.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
}

void SpawnSettings::SendOutputTo(int fd) {
  posix_spawn_file_actions_adddup2(&actions_, fd, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
}

bool IsProgram(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

bool IsProgramOnPath(const std::string& name) {
  if (name.find('/') != std::string::npos) return IsProgram(name);
  const char* const path = ::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (IsProgram(JoinPath(folder, name))) return true;
  }
  return false;
}

std::vector<char*> SpawnPointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string DescribeEnding(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    return absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
  }
  return absl::StrCat("exited with status ", WEXITSTATUS(wait_status));
}

}  // namespace lorsa

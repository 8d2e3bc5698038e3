// What a child process starts with.
#ifndef LORSA_BASE_SPAWN_SETTINGS_H_
#define LORSA_BASE_SPAWN_SETTINGS_H_

#include <spawn.h>

#include <string>
#include <vector>

namespace lorsa {

// For posix_spawn: a session of its own, so that no signal of this process's terminal reaches it;
// stdin from /dev/null, unless told otherwise; no blocked and no ignored signal; and of this
// process's descriptors none but those that one of the methods for output, called once, gives it.
class SpawnSettings {
 public:
  SpawnSettings();
  ~SpawnSettings();
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  // stdin from `file`.
  void ReadInputFrom(const std::string& file);
  // stdout and stderr are appended to `file`, created if absent.
  void AppendOutputTo(const std::string& file);
  // stdout goes to this process's descriptor `fd`, stderr nowhere.
  void SendOutputTo(int fd);

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// Whether `path` is a file that this process may execute.
bool IsProgram(const std::string& path);

// The same for a name without '/', which is looked for in the folders of PATH.
bool IsProgramOnPath(const std::string& name);

// Arguments or an environment as posix_spawn takes them; valid as long as `texts` is.
std::vector<char*> SpawnPointers(std::vector<std::string>& texts);

// "was killed by signal 9 (Killed)" or "exited with status 1", from what waitpid gave.
std::string DescribeEnding(int wait_status);

}  // namespace lorsa

#endif  // LORSA_BASE_SPAWN_SETTINGS_H_

// lorsa-inspect: parses a folder from outside for lorsad, in a process of its own that cannot do
// harm when a file makes a parser crash, loop or take memory. Started by lorsad, not by people:
//
//   lorsa-inspect set|checkpoint FOLDER MEMORY_BYTES CPU_SECONDS
//
// It answers as server/inspection/answer.h says, and exits with 0 once it gave its verdict.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <string>

#include "absl/strings/numbers.h"
#include "activation_store/inspect.h"
#include "base/file_system.h"
#include "server/inspection/answer.h"
#include "server/inspection/exit_codes.h"
#include "server/inspection/inspect_checkpoint.h"

namespace lorsa::server {
namespace {

constexpr rlim_t kMaxDescriptors = 64;

// Lowers the limit, as far as it is not lower already.
bool Limit(__rlimit_resource resource, rlim_t value) {
  struct rlimit limit;
  if (::getrlimit(resource, &limit) != 0) return false;
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < value) value = limit.rlim_max;
  limit = {.rlim_cur = value, .rlim_max = value};
  return ::setrlimit(resource, &limit) == 0;
}

// From here on this process cannot write a file, nor outlive lorsad.
bool GiveUpPower(uint64_t memory_bytes, uint64_t cpu_seconds) {
#ifndef __SANITIZE_ADDRESS__  // which maps terabytes that it does not use
  if (!Limit(RLIMIT_AS, memory_bytes)) return false;
#else
  static_cast<void>(memory_bytes);
#endif
  return Limit(RLIMIT_CPU, cpu_seconds) && Limit(RLIMIT_NOFILE, kMaxDescriptors) &&
         Limit(RLIMIT_CORE, 0) && Limit(RLIMIT_FSIZE, 0) &&
         ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

void Say(const std::string& line) {
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t n = ::write(STDOUT_FILENO, line.data() + written, line.size() - written);
    if (n <= 0) ::_exit(kInspectBroken);
    written += static_cast<size_t>(n);
  }
}

void OutOfMemory() { ::_exit(kInspectOutOfMemory); }

int Main(int argc, char** argv) {
  uint64_t memory_bytes = 0, cpu_seconds = 0;
  const std::string kind = argc == 5 ? argv[1] : "";
  if ((kind != "set" && kind != "checkpoint") || !absl::SimpleAtoi(argv[3], &memory_bytes) ||
      !absl::SimpleAtoi(argv[4], &cpu_seconds) || !GiveUpPower(memory_bytes, cpu_seconds)) {
    return kInspectBroken;
  }
  std::set_new_handler(OutOfMemory);
  PosixFileSystem fs;
  const std::string folder = argv[2];
  const auto on_file = [](const std::string& name) { Say(FormatReading(name)); };
  Say(FormatVerdict(kind == "set" ? store::InspectSet(fs, folder, on_file)
                                  : InspectCheckpoint(fs, folder, on_file)));
  return 0;
}

}  // namespace
}  // namespace lorsa::server

int main(int argc, char** argv) { return lorsa::server::Main(argc, argv); }

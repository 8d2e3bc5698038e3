// The command line of lorsad.
#ifndef LORSA_SERVER_LORSAD_OPTIONS_H_
#define LORSA_SERVER_LORSAD_OPTIONS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorsa::server {

inline constexpr char kVersion[] = LORSA_VERSION;

struct LorsadOptions {
  std::string data_folder = "lorsa-data";
  // HOST:PORT; port 0 = one that the system chooses.
  std::string listen = "127.0.0.1:7070";
  // Besides the folder "sets" in the data folder.
  std::vector<std::string> activation_roots;
  // Empty = lorsa-worker in the folder of this program.
  std::string worker_binary;
  int max_running_jobs = 1;
  // What running jobs may take together: threads × ranks, and bytes as estimated. 0 = the cores and
  // the memory of this machine.
  int cpu_slots = 0;
  int64_t job_memory_bytes = 0;
  std::string log_level = "info";
};

// The options, or the exit code where the program is to end at once (--help and --version were
// printed, or what is wrong was).
std::variant<LorsadOptions, int> ParseLorsadOptions(int argc, const char* const* argv);

struct ListenAddress {
  std::string host;  // as written; IPv6 in brackets
  int port = 0;
};

// INVALID_ARGUMENT unless `listen` is HOST:PORT with a port of 0 to 65535.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view listen);

// Nobody outside of this machine reaches a server on that host.
bool IsLoopback(absl::string_view host);

}  // namespace lorsa::server

#endif  // LORSA_SERVER_LORSAD_OPTIONS_H_

// What lorsad is told: its command line and its configuration file.
#ifndef LORSA_SERVER_LORSAD_OPTIONS_H_
#define LORSA_SERVER_LORSAD_OPTIONS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_system.h"
#include "server/logging.h"
#include "server/rpc/open_streams.h"

namespace lorsa::server {

inline constexpr char kVersion[] = LORSA_VERSION;

// As LimitsConfig (proto/lorsa/v1/server_config.proto).
struct ServerLimits {
  // Requests are small; sequences, the only large messages, go out.
  int64_t receive_message_bytes = 4 << 20;
  int64_t metadata_bytes = 16 << 10;
  int streams_per_connection = 1000;
  absl::Duration handshake = absl::Seconds(10);
  StreamLimits streams;
  StreamBounds sequence_streams = {.in_all = 64, .per_client = 32, .per_worker = 8};
  int reader_threads = 16;
  int64_t descriptors = 0;  // 0 = the system's hard limit
};

// As WebhooksConfig.
struct WebhookOptions {
  std::string secret_file;  // empty = no webhooks
  std::vector<std::string> allowed_hosts;
  absl::Duration timeout = absl::Seconds(10);
  absl::Duration give_up = absl::Hours(24);
};

// As JobKindConfig.
struct JobKindOptions {
  std::string name;
  std::vector<std::string> command;
};

// As ServerConfig.
struct LorsadOptions {
  std::string data_folder = "lorsa-data";
  // HOST:PORT; port 0 = one that the system chooses.
  std::string listen = "127.0.0.1:7070";
  // Besides the folder "sets" in the data folder.
  std::vector<std::string> activation_roots;
  // Empty = lorsa-worker in the folder of this program.
  std::string worker_binary;
  // Program that runs workers on another machine instead, which reach the server at
  // `worker_endpoint`; both or neither.
  std::string worker_wrapper;
  std::string worker_endpoint;  // HOST:PORT
  int max_running_jobs = 1;
  // What running jobs may take together: threads × ranks, and bytes as estimated. 0 = the cores and
  // the memory of this machine.
  int cpu_slots = 0;
  int64_t job_memory_bytes = 0;
  std::vector<std::string> cuda_devices;
  int64_t disk_reserve_bytes = int64_t{1} << 30;
  std::string metrics_listen;  // HOST:PORT on loopback; empty = no metrics
  absl::Duration verify_interval = absl::Hours(24 * 7);  // zero = never
  LogOptions log;
  ServerLimits limits;
  WebhookOptions webhooks;
  std::vector<JobKindOptions> job_kinds;
};

// What the configuration file `path` says, the rest as by default. INVALID_ARGUMENT naming file,
// line and column for text that does not parse, an unknown key included; else the error of reading.
absl::StatusOr<LorsadOptions> ReadConfig(FileSystem& fs, const std::string& path);

// INVALID_ARGUMENT naming every field, and its flag if it has one, that makes no sense, or names a
// file that does not.
absl::Status CheckOptions(FileSystem& fs, const LorsadOptions& options);

enum class Verb {
  kServe,
  kCheckConfig,  // say whether the options hold
  kBackUp,       // copy the catalog to `path`
  kRestore,      // make the catalog from the copy at `path`
};

struct LorsadCommand {
  Verb verb = Verb::kServe;
  LorsadOptions options;
  std::string path;
  bool dry_run = false;    // of kRestore: say what it means, and end
  bool set_aside = false;  // of kRestore: move what the backup does not know to lost+found
};

// What to do, or the exit code where the program is to end at once (--help and --version were
// printed, or what is wrong with command line or configuration was).
std::variant<LorsadCommand, int> ParseLorsadCommand(FileSystem& fs, int argc,
                                                    const char* const* argv);

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

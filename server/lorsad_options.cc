#include "server/lorsad_options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/identifiers.h"
#include "base/spawn_settings.h"
#include "base/status_macros.h"
#include "job_spec/textproto.h"
#include "lorsa/v1/server_config.pb.h"
#include "server/model/spec_facts.h"
#include "server/webhooks/webhook_key.h"
#include "server/webhooks/webhook_receivers.h"

namespace lorsa::server {
namespace {

constexpr uint64_t kMaxConfigBytes = 1 << 20;
// Fewer would not even serve the sets that are open (activation_store/activation_set.h).
constexpr int64_t kMinDescriptors = 512;

constexpr char kFooter[] =
    "\nA flag overrides what the configuration file says.\n"
    "Exit codes: 0 done, or stopped by SIGTERM; 1 error; 2 wrong usage or configuration.\n"
    "Examples:\n"
    "  lorsad --data-dir /var/lib/lorsa --activation-root /data/activations\n"
    "  lorsad --config /etc/lorsa/lorsad.textproto --check-config\n"
    "  lorsad backup /backup/lorsa/ --data-dir /var/lib/lorsa\n";

// Everything that the command line may say.
struct Arguments {
  LorsadCommand command;
  std::string config;
};

void AddOptions(CLI::App& app, Arguments& arguments) {
  LorsadOptions& options = arguments.command.options;
  app.add_option("--config", arguments.config,
                 "Configuration file (deploy/lorsad.textproto has every field)");
  app.add_flag_callback(
      "--check-config", [&arguments] { arguments.command.verb = Verb::kCheckConfig; },
      "Say whether configuration and flags hold, and end");
  app.add_option("--data-dir", options.data_folder,
                 "Folder of everything that the server keeps; made if absent")
      ->capture_default_str();
  app.add_option("--listen", options.listen, "HOST:PORT; port 0 = any free one")
      ->capture_default_str();
  app.add_option("--activation-root", options.activation_roots,
                 "Folder below which activation sets may be registered and checkpoints imported, "
                 "besides DATA_DIR/sets; may be given several times");
  app.add_option("--worker-binary", options.worker_binary,
                 "Program that runs a job (default: lorsa-worker beside lorsad)");
  app.add_option("--worker-wrapper", options.worker_wrapper,
                 "Program that runs lorsa-worker on another machine instead (docs/operations.md)");
  app.add_option("--worker-endpoint", options.worker_endpoint,
                 "HOST:PORT at which that machine reaches this server");
  app.add_option("--max-running-jobs", options.max_running_jobs, "Jobs that may run at once")
      ->capture_default_str();
  app.add_option("--cpu-slots", options.cpu_slots,
                 "Threads × ranks that running jobs may have together (default: the cores that the "
                 "server may use)");
  app.add_option("--job-memory-bytes", options.job_memory_bytes,
                 "Memory that running jobs may take together, as estimated (default: the "
                 "machine's, or that of its control group)");
  app.add_option("--cuda-device", options.cuda_devices,
                 "Device that one worker at a time sees; may be given several times");
  app.add_option("--disk-reserve-bytes", options.disk_reserve_bytes,
                 "With less free on the disk of the data folder, nothing new is started")
      ->capture_default_str();
  app.add_option("--metrics-listen", options.metrics_listen,
                 "HOST:PORT on loopback for Prometheus metrics (default: none)");
  app.add_option("--log-level", options.log.level, "debug, info, warn or error")
      ->capture_default_str();
  app.add_option("--log-file", options.log.file, "Where to log, with rotation (default: stderr)");
}

void AddVerbs(CLI::App& app, LorsadCommand& command) {
  const auto add = [&](const char* name, const char* help, Verb verb, const char* path_help) {
    CLI::App* app_of_verb = app.add_subcommand(name, help);
    app_of_verb->fallthrough();
    app_of_verb->add_option("PATH", command.path, path_help)->required();
    app_of_verb->callback([&command, verb] { command.verb = verb; });
    return app_of_verb;
  };
  add("backup", "Copy the catalog, also of a server that runs", Verb::kBackUp,
      "File to make, or folder to make one in, named for the time");
  CLI::App* restore =
      add("restore", "Make the catalog from a backup; no server runs on the data folder",
          Verb::kRestore, "The backup");
  restore->add_flag("--dry-run", command.dry_run, "Say what it means for the data folder, and end");
  restore->add_flag("--set-aside", command.set_aside,
                    "Move what the backup does not know to lost+found in the data folder: for an "
                    "older lorsad, which may delete it");
}

// Nothing if the program goes on, else its exit code: what is to be said was printed.
std::optional<int> ParseInto(Arguments& arguments, int argc, const char* const* argv) {
  CLI::App app("The Lorsa training server", "lorsad");
  AddOptions(app, arguments);
  AddVerbs(app, arguments.command);
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", std::string("lorsad ") + kVersion);
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

// Collects sentences about fields.
class Problems {
 public:
  void AddUnless(bool holds, absl::string_view field, absl::string_view rule) {
    if (!holds) Add(field, rule);
  }
  void Add(absl::string_view field, absl::string_view what) {
    texts_.push_back(absl::StrCat(field, " ", what));
  }
  absl::Status ToStatus() const {
    if (texts_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrJoin(texts_, "\n"));
  }

 private:
  std::vector<std::string> texts_;
};

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

bool IsFile(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

bool IsLoopbackAddress(const std::string& listen) {
  const auto address = ParseListenAddress(listen);
  return address.ok() && IsLoopback(address->host);
}

// A port of 0 is one to listen on, not one to connect to.
bool IsReachableAddress(const std::string& endpoint) {
  const auto address = ParseListenAddress(endpoint);
  return address.ok() && address->port > 0;
}

void CheckWorkerProgram(const LorsadOptions& options, Problems& problems) {
  problems.AddUnless(options.worker_binary.empty() || IsFile(options.worker_binary),
                     "worker_binary (--worker-binary)",
                     absl::StrCat("names ", options.worker_binary, ", which is no file"));
  if (options.worker_wrapper.empty()) {
    problems.AddUnless(options.worker_endpoint.empty(), "worker_endpoint (--worker-endpoint)",
                       "is for workers elsewhere: name the worker_wrapper that runs them");
    return;
  }
  problems.AddUnless(IsProgram(options.worker_wrapper), "worker_wrapper (--worker-wrapper)",
                     absl::StrCat("names ", options.worker_wrapper, ", which is no program"));
  problems.AddUnless(options.worker_binary.empty(), "worker_wrapper (--worker-wrapper)",
                     "is started in place of worker_binary: name one of them");
  problems.AddUnless(IsReachableAddress(options.worker_endpoint),
                     "worker_endpoint (--worker-endpoint)",
                     "must be HOST:PORT, where workers run by worker_wrapper reach this server");
}

void CheckJobKinds(const LorsadOptions& options, Problems& problems) {
  problems.AddUnless(options.job_kinds.empty() || options.worker_wrapper.empty(), "job_kinds",
                     "cannot be combined with worker_wrapper: their programs run on this machine");
  std::set<std::string> names = {kTrainingKind};
  for (const JobKindOptions& kind : options.job_kinds) {
    const absl::Status valid = ValidateId("name", kind.name);
    if (!valid.ok()) {
      problems.Add("job_kinds", absl::StrCat("has a ", valid.message()));
    } else {
      problems.AddUnless(names.insert(kind.name).second, "job_kinds",
                         absl::StrCat("names a kind '", kind.name,
                                      "' that there is already; choose another name"));
    }
    problems.AddUnless(!kind.command.empty() && !kind.command.front().empty(), "job_kinds",
                       absl::StrCat("gives no command for '", kind.name, "'"));
  }
}

void CheckBounds(const StreamBounds& bounds, int most, const std::string& field,
                 Problems& problems) {
  problems.AddUnless(bounds.in_all >= 1 && bounds.in_all <= most, field,
                     absl::StrCat("must be 1 to ", most));
  problems.AddUnless(bounds.per_client >= 1 && bounds.per_client <= most, field + "_per_client",
                     absl::StrCat("must be 1 to ", most));
}

void CheckStreams(const ServerLimits& limits, Problems& problems) {
  CheckBounds(limits.streams.bounds, 1'000'000, "limits.streams", problems);
  CheckBounds(limits.sequence_streams, 10'000, "limits.sequence_streams", problems);
  problems.AddUnless(
      limits.streams.stall >= absl::Seconds(1) && limits.streams.stall <= absl::Hours(24 * 30),
      "limits.stream_stall_seconds", "must be 1 to 2,592,000");
  problems.AddUnless(limits.reader_threads >= 1 && limits.reader_threads <= 256,
                     "limits.reader_threads", "must be 1 to 256");
}

void CheckLimits(const ServerLimits& limits, Problems& problems) {
  problems.AddUnless(
      limits.receive_message_bytes >= 2 << 20 && limits.receive_message_bytes <= 256 << 20,
      "limits.receive_message_bytes", "must be 2 MiB to 256 MiB");
  problems.AddUnless(limits.metadata_bytes >= 1 << 10 && limits.metadata_bytes <= 1 << 20,
                     "limits.metadata_bytes", "must be 1 KiB to 1 MiB");
  problems.AddUnless(
      limits.streams_per_connection >= 1 && limits.streams_per_connection <= 1'000'000,
      "limits.streams_per_connection", "must be 1 to 1,000,000");
  problems.AddUnless(
      limits.handshake >= absl::Milliseconds(100) && limits.handshake <= absl::Minutes(10),
      "limits.handshake_seconds", "must be 0.1 to 600");
  CheckStreams(limits, problems);
  problems.AddUnless(limits.descriptors == 0 || limits.descriptors >= kMinDescriptors,
                     "limits.descriptors", absl::StrCat("must be 0 or at least ", kMinDescriptors));
}

void CheckLog(const LogOptions& log, Problems& problems) {
  problems.AddUnless(
      log.level == "debug" || log.level == "info" || log.level == "warn" || log.level == "error",
      "log.level (--log-level)", "must be debug, info, warn or error");
  problems.AddUnless(log.max_file_bytes >= 64 << 10, "log.max_file_bytes",
                     "must be at least 64 KiB");
  problems.AddUnless(log.old_files >= 0 && log.old_files <= 1000, "log.old_files",
                     "must be 0 to 1,000");
}

void CheckWebhookKey(FileSystem& fs, const std::string& path, Problems& problems) {
  if (!IsFile(path)) {  // Before it is opened: a FIFO would be waited for.
    problems.Add("webhooks.secret_file", absl::StrCat("names ", path, ", which is no file"));
    return;
  }
  const absl::Status status = ReadWebhookKey(fs, path).status();
  problems.AddUnless(status.ok(), "webhooks.secret_file:", std::string(status.message()));
}

void CheckWebhooks(FileSystem& fs, const WebhookOptions& webhooks, Problems& problems) {
  if (!webhooks.secret_file.empty()) CheckWebhookKey(fs, webhooks.secret_file, problems);
  problems.AddUnless(webhooks.secret_file.empty() == webhooks.allowed_hosts.empty(), "webhooks",
                     "must have both secret_file and allowed_hosts, or neither");
  for (const std::string& host : webhooks.allowed_hosts) {
    const absl::Status status = ValidateReceiver(host);
    problems.AddUnless(status.ok(), "webhooks.allowed_hosts", std::string(status.message()));
  }
  problems.AddUnless(
      webhooks.timeout >= absl::Milliseconds(100) && webhooks.timeout <= absl::Minutes(5),
      "webhooks.timeout_seconds", "must be 0.1 to 300");
  problems.AddUnless(
      webhooks.give_up >= absl::ZeroDuration() && webhooks.give_up <= absl::Hours(24 * 30),
      "webhooks.give_up_hours", "must be 0 to 720");
}

LogOptions LogFrom(const v1::LogConfig& config) {
  LogOptions log;
  if (config.has_level()) log.level = config.level();
  if (config.has_file()) log.file = config.file();
  if (config.has_max_file_bytes()) log.max_file_bytes = config.max_file_bytes();
  if (config.has_old_files()) log.old_files = config.old_files();
  return log;
}

void ReadStreams(const v1::LimitsConfig& config, ServerLimits& limits) {
  if (config.has_streams()) limits.streams.bounds.in_all = config.streams();
  if (config.has_streams_per_client()) {
    limits.streams.bounds.per_client = config.streams_per_client();
  }
  if (config.has_stream_stall_seconds()) {
    limits.streams.stall = absl::Seconds(config.stream_stall_seconds());
  }
  if (config.has_sequence_streams()) limits.sequence_streams.in_all = config.sequence_streams();
  if (config.has_sequence_streams_per_client()) {
    limits.sequence_streams.per_client = config.sequence_streams_per_client();
  }
  if (config.has_reader_threads()) limits.reader_threads = config.reader_threads();
}

ServerLimits LimitsFrom(const v1::LimitsConfig& config) {
  ServerLimits limits;
  if (config.has_receive_message_bytes()) {
    limits.receive_message_bytes = config.receive_message_bytes();
  }
  if (config.has_metadata_bytes()) limits.metadata_bytes = config.metadata_bytes();
  if (config.has_streams_per_connection()) {
    limits.streams_per_connection = config.streams_per_connection();
  }
  if (config.has_handshake_seconds()) {
    limits.handshake = absl::Seconds(config.handshake_seconds());
  }
  ReadStreams(config, limits);
  if (config.has_descriptors()) limits.descriptors = config.descriptors();
  return limits;
}

WebhookOptions WebhooksFrom(const v1::WebhooksConfig& config) {
  WebhookOptions webhooks;
  if (config.has_secret_file()) webhooks.secret_file = config.secret_file();
  webhooks.allowed_hosts = {config.allowed_hosts().begin(), config.allowed_hosts().end()};
  if (config.has_timeout_seconds()) webhooks.timeout = absl::Seconds(config.timeout_seconds());
  if (config.has_give_up_hours()) webhooks.give_up = absl::Hours(config.give_up_hours());
  return webhooks;
}

LorsadOptions OptionsFrom(const v1::ServerConfig& config) {
  LorsadOptions options;
  if (config.has_data_dir()) options.data_folder = config.data_dir();
  if (config.has_listen()) options.listen = config.listen();
  options.activation_roots = {config.activation_roots().begin(), config.activation_roots().end()};
  if (config.has_worker_binary()) options.worker_binary = config.worker_binary();
  if (config.has_worker_wrapper()) options.worker_wrapper = config.worker_wrapper();
  if (config.has_worker_endpoint()) options.worker_endpoint = config.worker_endpoint();
  for (const v1::JobKindConfig& kind : config.job_kinds()) {
    options.job_kinds.push_back(
        {.name = kind.name(), .command = {kind.command().begin(), kind.command().end()}});
  }
  if (config.has_max_running_jobs()) options.max_running_jobs = config.max_running_jobs();
  if (config.has_cpu_slots()) options.cpu_slots = config.cpu_slots();
  if (config.has_job_memory_bytes()) options.job_memory_bytes = config.job_memory_bytes();
  options.cuda_devices = {config.cuda_devices().begin(), config.cuda_devices().end()};
  if (config.has_disk_reserve_bytes()) options.disk_reserve_bytes = config.disk_reserve_bytes();
  if (config.has_metrics_listen()) options.metrics_listen = config.metrics_listen();
  if (config.has_verify_interval_hours()) {
    options.verify_interval = absl::Hours(config.verify_interval_hours());
  }
  options.log = LogFrom(config.log());
  options.limits = LimitsFrom(config.limits());
  options.webhooks = WebhooksFrom(config.webhooks());
  return options;
}

}  // namespace

absl::StatusOr<LorsadOptions> ReadConfig(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kMaxConfigBytes));
  v1::ServerConfig config;
  LORSA_RETURN_IF_ERROR(ParseTextproto(path, text, config));
  return OptionsFrom(config);
}

absl::Status CheckOptions(FileSystem& fs, const LorsadOptions& options) {
  Problems problems;
  problems.AddUnless(!options.data_folder.empty(), "data_dir (--data-dir)", "must name a folder");
  problems.AddUnless(ParseListenAddress(options.listen).ok(), "listen (--listen)",
                     "must be HOST:PORT, such as 127.0.0.1:7070");
  for (const std::string& root : options.activation_roots) {
    problems.AddUnless(IsFolder(root), "activation_roots (--activation-root)",
                       absl::StrCat("names ", root, ", which is no folder"));
  }
  CheckWorkerProgram(options, problems);
  CheckJobKinds(options, problems);
  problems.AddUnless(options.max_running_jobs >= 1 && options.max_running_jobs <= 1024,
                     "max_running_jobs (--max-running-jobs)", "must be 1 to 1,024");
  problems.AddUnless(options.cpu_slots >= 0 && options.cpu_slots <= 1 << 20,
                     "cpu_slots (--cpu-slots)", "must be 0 to 1,048,576");
  problems.AddUnless(options.job_memory_bytes >= 0, "job_memory_bytes (--job-memory-bytes)",
                     "must not be negative");
  for (const std::string& device : options.cuda_devices) {
    problems.AddUnless(!device.empty(), "cuda_devices (--cuda-device)", "must not be empty");
  }
  problems.AddUnless(options.disk_reserve_bytes >= 0, "disk_reserve_bytes (--disk-reserve-bytes)",
                     "must not be negative");
  problems.AddUnless(options.metrics_listen.empty() || IsLoopbackAddress(options.metrics_listen),
                     "metrics_listen (--metrics-listen)",
                     "must be HOST:PORT with a loopback host, such as 127.0.0.1:9464: metrics are "
                     "not authenticated");
  problems.AddUnless(options.verify_interval >= absl::ZeroDuration(), "verify_interval_hours",
                     "must not be negative");
  CheckLog(options.log, problems);
  CheckLimits(options.limits, problems);
  CheckWebhooks(fs, options.webhooks, problems);
  return problems.ToStatus();
}

std::variant<LorsadCommand, int> ParseLorsadCommand(FileSystem& fs, int argc,
                                                    const char* const* argv) {
  Arguments arguments;
  if (const auto exit_code = ParseInto(arguments, argc, argv)) return *exit_code;
  absl::Status status;
  if (!arguments.config.empty()) {
    auto options = ReadConfig(fs, arguments.config);
    status = options.status();
    if (options.ok()) {
      arguments.command.options = *std::move(options);
      ParseInto(arguments, argc, argv);  // The flags again, over what the file says.
    }
  }
  if (status.ok()) status = CheckOptions(fs, arguments.command.options);
  if (status.ok()) return arguments.command;
  std::fprintf(stderr, "lorsad: %s\n", std::string(status.message()).c_str());
  return 2;
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view listen) {
  const size_t colon = listen.rfind(':');
  ListenAddress address;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &address.port) || address.port < 0 ||
      address.port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", listen, "' is not HOST:PORT, such as 127.0.0.1:7070"));
  }
  address.host = std::string(listen.substr(0, colon));
  return address;
}

bool IsLoopback(absl::string_view host) {
  return host == "localhost" || host == "[::1]" || absl::StartsWith(host, "127.");
}

}  // namespace lorsa::server

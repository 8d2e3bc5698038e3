#include "server/lorsad_options.h"

#include <CLI/CLI.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lorsa::server {
namespace {

constexpr char kFooter[] =
    "\nExample:\n"
    "  lorsad --data-dir /var/lib/lorsa --activation-root /data/activations\n";

// As CLI11 validates: what is wrong, or nothing.
std::string ListenProblem(const std::string& listen) {
  return std::string(ParseListenAddress(listen).status().message());
}

void AddOptions(CLI::App& app, LorsadOptions& options) {
  app.add_option("--data-dir", options.data_folder,
                 "Folder of everything that the server keeps; made if absent")
      ->capture_default_str();
  app.add_option("--listen", options.listen, "HOST:PORT; port 0 = any free one")
      ->check(CLI::Validator(ListenProblem, "HOST:PORT"))
      ->capture_default_str();
  app.add_option("--activation-root", options.activation_roots,
                 "Folder below which activation sets may be registered, besides DATA_DIR/sets; "
                 "may be given several times")
      ->check(CLI::ExistingDirectory);
  app.add_option("--worker-binary", options.worker_binary,
                 "Program that runs a job (default: lorsa-worker beside lorsad)")
      ->check(CLI::ExistingFile);
  app.add_option("--max-running-jobs", options.max_running_jobs, "Jobs that may run at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--cpu-slots", options.cpu_slots,
                 "Threads × ranks that running jobs may have together (default: the cores)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--job-memory-bytes", options.job_memory_bytes,
                 "Memory that running jobs may take together, as estimated (default: the "
                 "machine's, or that of its control group)")
      ->check(CLI::PositiveNumber);
  app.add_option("--log-level", options.log_level, "How much is logged, to stderr")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
}

}  // namespace

std::variant<LorsadOptions, int> ParseLorsadOptions(int argc, const char* const* argv) {
  CLI::App app("The Lorsa training server", "lorsad");
  LorsadOptions options;
  AddOptions(app, options);
  app.set_version_flag("--version", std::string("lorsad ") + kVersion);
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;  // 2: wrong usage, as of `lorsa`
  }
  return options;
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

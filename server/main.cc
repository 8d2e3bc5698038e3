// lorsad: holds the durable state of the service and runs its jobs. Exit code 0 after SIGTERM or
// SIGINT, 1 if it could not start.
#include <grpc/support/log.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>

#include "server/descriptor_limit.h"
#include "server/lorsad.h"
#include "server/lorsad_options.h"
#include "server/shutdown_signals.h"

namespace lorsa::server {
namespace {

// What gRPC says of its own accord, in the form of every other line.
void LogForGrpc(gpr_log_func_args* args) {
  const auto level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::warn : spdlog::level::debug;
  spdlog::log(level, "event=grpc source={}:{} message={}", args->file, args->line, args->message);
}

void SetUpLogging(const std::string& level) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("lorsad"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  spdlog::set_level(spdlog::level::from_str(level));
  gpr_set_log_function(LogForGrpc);
}

int Run(const LorsadOptions& options) {
  ShutdownSignals signals;
  SetUpLogging(options.log_level);
  if (const absl::Status raised = RaiseDescriptorLimit(); !raised.ok()) {
    spdlog::warn("event=descriptor_limit message=\"cannot be raised: {}\"",
                 std::string(raised.message()));
  }
  absl::StatusOr<std::unique_ptr<Lorsad>> lorsad = Lorsad::Start(options);
  if (!lorsad.ok()) {
    std::fprintf(stderr, "lorsad: %s\n", std::string(lorsad.status().message()).c_str());
    return EXIT_FAILURE;
  }
  spdlog::info("event=listening address={} data_dir={} version={}", (*lorsad)->address(),
               options.data_folder, kVersion);
  const int signal = signals.Wait();
  spdlog::info("event=stopping signal={}", signal);
  const SecondSignalWatch forced([] {
    spdlog::warn("event=stopping_at_once message=\"second signal\"");
    std::_Exit(EXIT_FAILURE);
  });
  lorsad->reset();
  spdlog::info("event=stopped");
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace lorsa::server

int main(int argc, char** argv) {
  const auto options = lorsa::server::ParseLorsadOptions(argc, argv);
  if (const int* exit_code = std::get_if<int>(&options)) return *exit_code;
  return lorsa::server::Run(std::get<lorsa::server::LorsadOptions>(options));
}

// lorsa-worker: trains one Lorsa, under lorsad or alone.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/file_system.h"
#include "trainer/worker/attempt.h"
#include "trainer/worker/standalone.h"
#include "trainer/worker/stop_signals.h"

namespace {

constexpr int kWrongUsage = 2;

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains one Lorsa: under lorsad, which passes --bootstrap, or alone.",
               "lorsa-worker");
  app.footer(
      "Example:\n"
      "  echo 'activation_set: \"mine\" expansion_factor: 8 top_k: 64' > spec.textproto\n"
      "  lorsa-worker --standalone spec.textproto --set sets/mine --out run");
  std::string bootstrap_file;
  lorsa::worker::StandaloneOptions standalone;
  auto* bootstrap =
      app.add_option("--bootstrap", bootstrap_file, "File that lorsad wrote for this attempt");
  auto* alone =
      app.add_option("--standalone", standalone.spec,
                     "Train without a server: a TrainingSpec (textproto or JSON), its file, or -");
  alone->excludes(bootstrap);
  app.add_option("--set", standalone.set_folder, "Folder of the activation set")->needs(alone);
  app.add_option(
         "--out", standalone.output_folder,
         "Folder for metrics and checkpoints, all of which are kept; a run found there is resumed")
      ->needs(alone);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }

  spdlog::set_default_logger(spdlog::stderr_color_mt("worker"));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  lorsa::PosixFileSystem fs;
  lorsa::worker::StopSignals signals;
  absl::Status status;
  if (!bootstrap_file.empty()) {
    status = lorsa::worker::RunAttempt(fs, bootstrap_file, signals.requested());
  } else if (!standalone.spec.empty() && !standalone.set_folder.empty() &&
             !standalone.output_folder.empty()) {
    status = lorsa::worker::RunStandalone(fs, standalone, signals.requested());
  } else {
    status = absl::InvalidArgumentError(
        "give --standalone with --set and --out; --bootstrap is for lorsad (see --help)");
  }
  if (status.ok()) return 0;
  std::cerr << "lorsa-worker: " << std::string(status.message()) << "\n";
  return 1;
}

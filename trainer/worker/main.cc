// lorsa-worker: trains one Lorsa, under lorsad or alone.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <iostream>
#include <memory>
#include <optional>

#include "base/file_system.h"
#include "trainer/parallel/mpi_communicator.h"
#include "trainer/resources/resource_estimate.h"
#include "trainer/train/training_run.h"
#include "trainer/worker/attempt.h"
#include "trainer/worker/ranks.h"
#include "trainer/worker/repeatable_environment.h"
#include "trainer/worker/run_log.h"
#include "trainer/worker/standalone.h"
#include "trainer/worker/stop_signals.h"

namespace {

constexpr int kWrongUsage = 2;
constexpr int kStoppedEarly = 75;  // EX_TEMPFAIL: run it again to go on

using Outcome = lorsa::trainer::RunOutcome;

absl::StatusOr<Outcome> RunAlone(lorsa::FileSystem& fs,
                                 const lorsa::worker::StandaloneOptions& options,
                                 const std::atomic<bool>& stop,
                                 lorsa::worker::LeadingRank& leader) {
  if (options.spec.empty() || options.set_folder.empty() || options.output_folder.empty()) {
    return absl::InvalidArgumentError(
        "give --standalone with --set and --out; --bootstrap is for lorsad (see --help)");
  }
  return lorsa::worker::RunStandalone(fs, options, stop, leader);
}

int Failed(const absl::Status& status) {
  std::cerr << "lorsa-worker: " << std::string(status.message()) << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  lorsa::trainer::ReturnFreedBlocks();
  CLI::App app("Trains one Lorsa: under lorsad, which passes --bootstrap, or alone.",
               "lorsa-worker");
  app.footer(
      "Example:\n"
      "  echo 'activation_set: \"mine\" expansion_factor: 8 top_k: 64' > spec.textproto\n"
      "  lorsa-worker --standalone spec.textproto --set sets/mine --out run\n"
      "  mpirun -n 2 lorsa-worker …   the same, with the sequences of each step shared");
  lorsa::worker::AttemptOptions attempt;
  lorsa::worker::StandaloneOptions standalone;
  auto* bootstrap = app.add_option("--bootstrap", attempt.bootstrap_file,
                                   "File that lorsad wrote for this attempt; - = standard input");
  app.add_option("--scratch", attempt.scratch_folder,
                 "Folder of this machine for the files of an attempt whose server keeps its files "
                 "on another (worker_wrapper of lorsad)")
      ->needs(bootstrap);
  auto* alone =
      app.add_option("--standalone", standalone.spec,
                     "Train without a server: a TrainingSpec (textproto or JSON), its file, or -");
  alone->excludes(bootstrap);
  app.add_option("--set", standalone.set_folder, "Folder of the activation set")->needs(alone);
  app.add_option(
         "--out", standalone.output_folder,
         "Folder for metrics and checkpoints; a run found there is resumed. Exit code 75: stopped "
         "by a signal before the end, run the same command again to go on")
      ->needs(alone);
  app.add_option("--initial-checkpoint", standalone.initial_checkpoint,
                 "Folder of a checkpoint with whose weights the run starts")
      ->needs(alone);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }

  spdlog::set_default_logger(spdlog::stderr_color_mt("worker"));
  lorsa::worker::SetLogPattern("");
  const absl::Status repeatable = lorsa::worker::ShedVariablesThatChangeBits(argv);
  if (!repeatable.ok()) return Failed(repeatable);
  const bool shared = lorsa::trainer::MpiProcessCount() > 1;
  // Ranks under lorsad hear from it when to stop. A signal there comes from mpirun, which ends them
  // because one has died; that is no stop in good order.
  std::optional<lorsa::worker::StopSignals> signals;
  if (attempt.bootstrap_file.empty() || !shared) signals.emplace();
  const std::atomic<bool> never = false;
  const std::atomic<bool>& stop = signals ? signals->requested() : never;

  std::unique_ptr<lorsa::trainer::Communicator> communicator;
  if (shared) communicator = lorsa::trainer::JoinMpi();
  if (shared && communicator->rank() > 0) {
    lorsa::worker::FollowRankZero(*communicator);
    return 0;
  }
  lorsa::PosixFileSystem fs;
  lorsa::worker::LeadingRank leader(communicator.get());
  if (!attempt.bootstrap_file.empty()) {
    const absl::Status status = lorsa::worker::RunAttempt(fs, attempt, stop, leader);
    return status.ok() ? 0 : Failed(status);
  }
  const absl::StatusOr<Outcome> outcome = RunAlone(fs, standalone, stop, leader);
  if (!outcome.ok()) return Failed(outcome.status());
  if (outcome->kind == Outcome::Kind::kSucceeded) return 0;
  std::cerr << "lorsa-worker: stopped at step " << outcome->step
            << "; run the same command again to go on. " << outcome->message << "\n";
  return kStoppedEarly;
}

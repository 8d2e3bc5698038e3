#include "trainer/worker/standalone.h"

#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "activation_store/activation_set.h"
#include "base/status_macros.h"
#include "job_spec/describe_set.h"
#include "job_spec/initial_weights.h"
#include "job_spec/resolve.h"
#include "job_spec/spec_text.h"
#include "spdlog/spdlog.h"
#include "trainer/config/checkpoint_config.h"
#include "trainer/config/config_from_spec.h"
#include "trainer/config/weights_from_config.h"
#include "trainer/train/training_run.h"
#include "trainer/worker/local_host.h"
#include "trainer/worker/run_log.h"

namespace lorsa::worker {
namespace {

absl::Status ViolationsError(const std::vector<FieldViolation>& violations) {
  std::string message = "the specification cannot be run:";
  for (const FieldViolation& violation : violations) {
    absl::StrAppend(&message, "\n  ", violation.field, " ", violation.description);
  }
  return absl::InvalidArgumentError(message);
}

constexpr uint64_t kMaxConfigBytes = 1 << 20;

// What `spec` resolves to; `folder` is that of the initial checkpoint, if it is to start from one.
absl::StatusOr<ResolvedSpec> Resolve(FileSystem& fs, v1::TrainingSpec spec,
                                     const std::string& folder, const v1::ActivationSet& set) {
  if (folder.empty()) {
    if (spec.initial_checkpoint().empty()) return ResolveTrainingSpec(spec, set, ThisMachine());
    return absl::InvalidArgumentError(
        "initial_checkpoint is the name of a server's; give its folder as --initial-checkpoint");
  }
  spec.set_initial_checkpoint(folder);
  const std::string path = JoinPath(folder, "config.json");
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kMaxConfigBytes));
  const auto config = trainer::ParseCheckpointConfig(text);
  if (!config.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", config.status().message()));
  }
  return ResolveFromWeights(spec, WeightsFromConfig(*config), set, ThisMachine());
}

}  // namespace

absl::StatusOr<trainer::RunOutcome> RunStandalone(FileSystem& fs, const StandaloneOptions& options,
                                                  const std::atomic<bool>& stop,
                                                  LeadingRank& leader) {
  LORSA_ASSIGN_OR_RETURN(const SpecText text, ReadSpecText({options.spec}, std::cin, fs));
  LORSA_ASSIGN_OR_RETURN(v1::TrainingSpec spec, ParseSpec(text));
  if (!spec.has_ranks()) spec.set_ranks(static_cast<uint32_t>(leader.ranks()));
  LORSA_ASSIGN_OR_RETURN(const auto set, store::ActivationSet::Open(fs, options.set_folder));
  v1::ActivationSet description = DescribeSet(set->manifest(), spec.activation_set());
  description.set_manifest_sha256(set->manifest_sha256());
  LORSA_ASSIGN_OR_RETURN(const ResolvedSpec resolved,
                         Resolve(fs, spec, options.initial_checkpoint, description));
  if (!resolved.ok()) return ViolationsError(resolved.violations);
  LORSA_ASSIGN_OR_RETURN(const trainer::TrainConfig config,
                         ConfigFromSpec(resolved.spec, description));
  LORSA_ASSIGN_OR_RETURN(const trainer::KernelDecorator decorate,
                         leader.Decorator(resolved.spec, description));
  LORSA_ASSIGN_OR_RETURN(const auto host,
                         LocalHost::Create(fs, set, config, options.output_folder, stop));
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> checkpoints, host->CheckpointFolders());
  LogExpected(config);
  LORSA_ASSIGN_OR_RETURN(const trainer::RunOutcome outcome,
                         trainer::RunTraining(config, *host, checkpoints,
                                              {.decorate = decorate,
                                               .initial_checkpoint = options.initial_checkpoint}));
  LogTaken(outcome);
  spdlog::info("event=run_end step={} tokens={} message=\"{}\"", outcome.step, outcome.tokens,
               outcome.message);
  return outcome;
}

}  // namespace lorsa::worker

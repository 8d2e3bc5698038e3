#include "server/kinds/training_estimate.h"

#include <optional>

#include "absl/time/time.h"
#include "base/status_macros.h"
#include "server/model/spec_facts.h"
#include "trainer/config/config_from_spec.h"
#include "trainer/lorsa/step_cost.h"
#include "trainer/resources/resource_estimate.h"

namespace lorsa::server {
namespace {

// Jobs that are looked at for one to compare with.
constexpr int kJobsRemembered = 100;

absl::StatusOr<trainer::TrainConfig> ConfigOf(const Catalog& catalog,
                                              const v1::TrainingSpec& resolved) {
  LORSA_ASSIGN_OR_RETURN(const v1::ActivationSet set,
                         catalog.GetActivationSet(resolved.activation_set()));
  return worker::ConfigFromSpec(resolved, set);
}

double Flops(const trainer::TrainConfig& config) {
  const trainer::StepShape shape{.sequences = config.sequences_per_step,
                                 .context = config.set.context};
  return static_cast<double>(config.total_steps()) * trainer::StepFlops(config.lorsa, shape);
}

bool RunsAlike(const v1::TrainingSpec& a, const v1::TrainingSpec& b) {
  return a.precision() == b.precision() && a.threads() == b.threads() && a.ranks() == b.ranks();
}

double SecondsOf(const v1::Job& job) {
  const auto seconds = [](const google::protobuf::Timestamp& t) {
    return static_cast<double>(t.seconds()) + 1e-9 * t.nanos();
  };
  return seconds(job.end_time()) - seconds(job.start_time());
}

// What the server has needed for an operation of such a job, all that is no step included.
absl::StatusOr<std::optional<double>> SecondsPerFlop(const Catalog& catalog,
                                                     const v1::TrainingSpec& resolved) {
  LORSA_ASSIGN_OR_RETURN(
      const std::vector<StoredJob> succeeded,
      catalog.ListJobs({.state = v1::JOB_STATE_SUCCEEDED, .limit = kJobsRemembered}));
  for (const StoredJob& stored : succeeded) {
    const v1::Job& job = stored.record.job;
    const v1::TrainingSpec& ran = job.resolved_spec().training();
    if (job.attempt() != 1 || job.kind() != kTrainingKind || !RunsAlike(ran, resolved)) continue;
    const absl::StatusOr<trainer::TrainConfig> config = ConfigOf(catalog, ran);
    if (config.ok()) return SecondsOf(job) / Flops(*config);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<v1::JobEstimate> EstimateTrainingResources(const Catalog& catalog,
                                                          const v1::TrainingSpec& resolved) {
  LORSA_ASSIGN_OR_RETURN(const trainer::TrainConfig config, ConfigOf(catalog, resolved));
  const trainer::ResourceEstimate resources = trainer::EstimateResources(config);
  v1::JobEstimate estimate;
  estimate.set_memory_bytes(resources.memory());
  estimate.set_memory_parts(trainer::MemoryText(resources));
  estimate.set_disk_bytes(resources.disk());
  return estimate;
}

absl::StatusOr<std::optional<absl::Duration>> EstimateTrainingTime(
    const Catalog& catalog, const v1::TrainingSpec& resolved) {
  LORSA_ASSIGN_OR_RETURN(const trainer::TrainConfig config, ConfigOf(catalog, resolved));
  LORSA_ASSIGN_OR_RETURN(const std::optional<double> pace, SecondsPerFlop(catalog, resolved));
  if (!pace.has_value()) return std::nullopt;
  return absl::Seconds(*pace * Flops(config));
}

absl::StatusOr<int64_t> EstimateCheckpointBytes(const Catalog& catalog,
                                                const v1::TrainingSpec& resolved) {
  LORSA_ASSIGN_OR_RETURN(const trainer::TrainConfig config, ConfigOf(catalog, resolved));
  return trainer::EstimateResources(config).checkpoint;
}

}  // namespace lorsa::server

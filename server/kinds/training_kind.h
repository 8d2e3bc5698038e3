// Jobs that train a Lorsa: TrainingSpec, run by lorsa-worker.
#ifndef LORSA_SERVER_KINDS_TRAINING_KIND_H_
#define LORSA_SERVER_KINDS_TRAINING_KIND_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "job_spec/training_machine.h"
#include "server/catalog/catalog.h"
#include "server/jobs/job_kind.h"
#include "server/model/data_layout.h"

namespace lorsa::server {

class TrainingKind : public JobKind {
 public:
  // `catalog` and `fs` outlive this. Workers run on `machine`.
  TrainingKind(const Catalog& catalog, FileSystem& fs, DataLayout layout, TrainingMachine machine)
      : catalog_(catalog), fs_(fs), layout_(std::move(layout)), machine_(machine) {}

  // NOT_FOUND for the initial checkpoint; FAILED_PRECONDITION (DAMAGED_CHECKPOINT) if it is
  // damaged.
  absl::StatusOr<PlannedSpec> Plan(const v1::JobSpec& spec, const v1::ActivationSet* set,
                                   const std::string& field) const override;
  absl::StatusOr<PlannedSpec> PlanFork(const v1::JobSpec& ran, const v1::TrainingSpec& changes,
                                       const v1::Checkpoint& checkpoint,
                                       const v1::ActivationSet& set) const override;
  absl::StatusOr<v1::JobEstimate> EstimateResources(const v1::JobSpec& resolved) const override;
  absl::StatusOr<std::optional<absl::Duration>> EstimateTime(
      const v1::JobSpec& resolved) const override;
  absl::StatusOr<int64_t> MaxUploadBytes(const v1::JobSpec& resolved,
                                         const std::string& file) const override;
  bool IsCheckpointFile(const std::string& file) const override;
  std::vector<std::string> Command() const override { return {}; }
  std::string Obstacle() const override { return ""; }

 private:
  const Catalog& catalog_;
  FileSystem& fs_;
  const DataLayout layout_;
  const TrainingMachine machine_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_KINDS_TRAINING_KIND_H_

// One kind of job: how its jobs are planned, and which program runs them. All else (queue,
// attempts, recovery, checkpoints, logs, metrics) is the same for all kinds.
#ifndef LORSA_SERVER_JOBS_JOB_KIND_H_
#define LORSA_SERVER_JOBS_JOB_KIND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/field_violation.h"
#include "lorsa/v1/activation_service.pb.h"
#include "lorsa/v1/checkpoint_service.pb.h"
#include "lorsa/v1/job.pb.h"
#include "lorsa/v1/job_spec.pb.h"
#include "lorsa/v1/training_spec.pb.h"

namespace lorsa::server {

// What a specification comes to.
struct PlannedSpec {
  // Every field set. Meaningful only if there are no violations.
  v1::JobSpec resolved;
  // Every problem. Fields are named from the message of the kind: "top_k".
  std::vector<FieldViolation> violations;
  // The other job's checkpoint whose weights the job starts from, as the catalog has it.
  std::optional<v1::Checkpoint> initial_checkpoint;
};

// Thread-safe; blocks on the catalog and the disk.
class JobKind {
 public:
  virtual ~JobKind() = default;

  // `spec` is of this kind. `set` is the activation set that it names; null if it names none.
  // `field`: what the request calls the message of the kind. An error is about what the
  // specification refers to.
  virtual absl::StatusOr<PlannedSpec> Plan(const v1::JobSpec& spec, const v1::ActivationSet* set,
                                           const std::string& field) const = 0;

  // A training job that goes on from `checkpoint` of a job that ran as `ran`, with `changes`.
  virtual absl::StatusOr<PlannedSpec> PlanFork(const v1::JobSpec& /*ran*/,
                                               const v1::TrainingSpec& /*changes*/,
                                               const v1::Checkpoint& /*checkpoint*/,
                                               const v1::ActivationSet& /*set*/) const {
    return absl::UnimplementedError("jobs of this kind cannot be forked");
  }

  // Memory and disk of a resolved specification, without time.
  virtual absl::StatusOr<v1::JobEstimate> EstimateResources(const v1::JobSpec& resolved) const = 0;
  // How long it runs; nothing if that is not known. For a client that asks, not for each job that
  // is made.
  virtual absl::StatusOr<std::optional<absl::Duration>> EstimateTime(
      const v1::JobSpec& resolved) const = 0;

  // Bytes that a file of a checkpoint may have which a worker without the server's disk sends.
  // INVALID_ARGUMENT naming the field "file" if checkpoints of this kind have no such file.
  virtual absl::StatusOr<int64_t> MaxUploadBytes(const v1::JobSpec& resolved,
                                                 const std::string& file) const = 0;
  virtual bool IsCheckpointFile(const std::string& file) const = 0;

  // Program of a worker and its first arguments; empty for the launcher's own program.
  virtual std::vector<std::string> Command() const = 0;
  // Why that program cannot be started just now; empty if it can.
  virtual std::string Obstacle() const = 0;
};

// The kinds that a server has, by Job.kind. Filled before use; then thread-safe.
class JobKinds {
 public:
  // Replaces one of the same name.
  void Add(const std::string& name, std::unique_ptr<JobKind> kind) {
    kinds_[name] = std::move(kind);
  }
  // Null if the server has no such kind.
  const JobKind* Find(absl::string_view name) const {
    const auto found = kinds_.find(name);
    return found == kinds_.end() ? nullptr : found->second.get();
  }
  // Why jobs of `name`, which is no kind of this server, do not run: one sentence.
  std::string Missing(absl::string_view name) const {
    return absl::StrCat("this server has no jobs of kind '", name, "', but ",
                        absl::StrJoin(Names(), ", "),
                        "; name its program under job_kinds in the configuration of the server");
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, kind] : kinds_) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, std::unique_ptr<JobKind>, std::less<>> kinds_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_JOBS_JOB_KIND_H_

// Jobs of a kind that the configuration names: ProgramSpec, run by the program named there.
#ifndef LORSA_SERVER_KINDS_PROGRAM_KIND_H_
#define LORSA_SERVER_KINDS_PROGRAM_KIND_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/jobs/job_kind.h"

namespace lorsa::server {

// The server knows nothing of what the program computes.
class ProgramKind final : public JobKind {
 public:
  // `command`: at least the program.
  explicit ProgramKind(std::vector<std::string> command) : command_(std::move(command)) {}

  absl::StatusOr<PlannedSpec> Plan(const v1::JobSpec& spec, const v1::ActivationSet* set,
                                   const std::string& field) const override;
  absl::StatusOr<v1::JobEstimate> EstimateResources(const v1::JobSpec& resolved) const override;
  absl::StatusOr<std::optional<absl::Duration>> EstimateTime(const v1::JobSpec&) const override {
    return std::nullopt;
  }
  // FAILED_PRECONDITION (SHARES_DISK): these programs run on the server's machine.
  absl::StatusOr<int64_t> MaxUploadBytes(const v1::JobSpec& resolved,
                                         const std::string& file) const override;
  bool IsCheckpointFile(const std::string&) const override { return false; }
  std::vector<std::string> Command() const override { return command_; }
  std::string Obstacle() const override;

 private:
  const std::vector<std::string> command_;
};

}  // namespace lorsa::server

#endif  // LORSA_SERVER_KINDS_PROGRAM_KIND_H_

#include "server/kinds/program_kind.h"

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/spawn_settings.h"

namespace lorsa::server {
namespace {

constexpr size_t kMaxParameterBytes = 256 << 10;
constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxKeptCheckpoints = 1000;

std::vector<FieldViolation> ViolationsOf(const v1::ProgramSpec& spec) {
  std::vector<FieldViolation> violations;
  const auto add = [&](const char* field, std::string description) {
    violations.push_back({field, std::move(description)});
  };
  if (spec.parameters().ByteSizeLong() > kMaxParameterBytes) {
    add("parameters", absl::StrCat("has ", spec.parameters().ByteSizeLong(), " bytes; the most is ",
                                   kMaxParameterBytes));
  }
  if (spec.threads() > kMaxThreads) {
    add("threads", absl::StrCat("is ", spec.threads(), "; use 1 to ", kMaxThreads));
  }
  if (spec.memory_bytes() < 0) {
    add("memory_bytes", "is negative; use the bytes at the peak, or 0 if they are not known");
  }
  if (spec.keep_checkpoints() > kMaxKeptCheckpoints) {
    add("keep_checkpoints",
        absl::StrCat("is ", spec.keep_checkpoints(), "; use 1 to ", kMaxKeptCheckpoints));
  }
  return violations;
}

}  // namespace

absl::StatusOr<PlannedSpec> ProgramKind::Plan(const v1::JobSpec& spec, const v1::ActivationSet* set,
                                              const std::string&) const {
  PlannedSpec planned{.resolved = spec, .violations = ViolationsOf(spec.program())};
  v1::ProgramSpec& program = *planned.resolved.mutable_program();
  if (program.threads() == 0) program.set_threads(1);
  if (program.keep_checkpoints() == 0) program.set_keep_checkpoints(1);
  program.set_activation_set_sha256(set == nullptr ? "" : set->manifest_sha256());
  return planned;
}

absl::StatusOr<v1::JobEstimate> ProgramKind::EstimateResources(const v1::JobSpec& resolved) const {
  v1::JobEstimate estimate;
  estimate.set_memory_bytes(resolved.program().memory_bytes());
  if (estimate.memory_bytes() > 0) estimate.set_memory_parts("as the specification says");
  return estimate;
}

absl::StatusOr<int64_t> ProgramKind::MaxUploadBytes(const v1::JobSpec& resolved,
                                                    const std::string&) const {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "a worker of kind ", resolved.program().kind(),
          " shares the disk of the server; make checkpoints in the staging folder instead")),
      "SHARES_DISK");
}

std::string ProgramKind::Obstacle() const {
  if (IsProgramOnPath(command_.front())) return "";
  return absl::StrCat(command_.front(),
                      " is missing or cannot be executed; put it back, or correct job_kinds in the "
                      "configuration of the server");
}

}  // namespace lorsa::server

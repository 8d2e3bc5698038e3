#include "server/jobs/checkpoint_name.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "server/jobs/job_name.h"
#include "server/model/data_layout.h"

namespace lorsa::server {
namespace {

using Checkpoints = std::vector<v1::Checkpoint>;

constexpr absl::string_view kCollection = "/checkpoints/";

absl::Status NoCheckpointYet(const std::string& job_id, absl::string_view which) {
  return WithReason(
      absl::NotFoundError(absl::StrCat("job '", job_id, "' has no ", which, " checkpoint yet")),
      "NO_CHECKPOINT", {{"job", job_id}});
}

absl::StatusOr<int64_t> Latest(const Checkpoints& checkpoints, const std::string& job_id) {
  const auto latest = std::find_if(checkpoints.rbegin(), checkpoints.rend(),
                                   [](const v1::Checkpoint& c) { return c.damage().empty(); });
  if (latest == checkpoints.rend()) return NoCheckpointYet(job_id, "published");
  return latest->step();
}

absl::StatusOr<int64_t> Best(const Checkpoints& checkpoints, const std::string& job_id) {
  const auto best = std::find_if(checkpoints.begin(), checkpoints.end(),
                                 [](const v1::Checkpoint& c) { return c.best(); });
  if (best == checkpoints.end()) return NoCheckpointYet(job_id, "evaluated");
  return best->step();
}

}  // namespace

absl::StatusOr<CheckpointName> ParseCheckpointName(const std::string& name,
                                                   absl::string_view field) {
  const size_t split = name.find(kCollection.data());
  if (split == std::string::npos) {
    return InvalidField(field, "is not of the form jobs/JOB/checkpoints/CHECKPOINT");
  }
  LORSA_ASSIGN_OR_RETURN(const std::string job_id, JobIdFrom(name.substr(0, split), field));
  CheckpointName parsed{job_id, name.substr(split + kCollection.size())};
  LORSA_RETURN_IF_ERROR(ForField(ValidateId("checkpoint id", parsed.checkpoint_id), field));
  return parsed;
}

absl::StatusOr<CheckpointStep> ParseCheckpointStep(const std::string& name,
                                                   absl::string_view field) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointName parsed, ParseCheckpointName(name, field));
  if (parsed.is_alias()) {
    return InvalidField(field, "must name a step: ask GetCheckpoint which one it is");
  }
  LORSA_ASSIGN_OR_RETURN(const int64_t step, StepOf(parsed.checkpoint_id, field));
  return CheckpointStep{parsed.job_id, step};
}

absl::StatusOr<int64_t> StepOf(absl::string_view checkpoint_id, absl::string_view field) {
  if (const std::optional<int64_t> step = StepOfCheckpointId(checkpoint_id)) return *step;
  return InvalidField(field, absl::StrCat("'", checkpoint_id, "' is not a checkpoint's id such as ",
                                          CheckpointId(1000)));
}

absl::StatusOr<CheckpointChoice> ChoiceOf(const CheckpointName& name, absl::string_view field) {
  if (name.checkpoint_id == "latest") {
    return [job_id = name.job_id](const Checkpoints& all) { return Latest(all, job_id); };
  }
  if (name.checkpoint_id == "best") {
    return [job_id = name.job_id](const Checkpoints& all) { return Best(all, job_id); };
  }
  LORSA_ASSIGN_OR_RETURN(const int64_t step, StepOf(name.checkpoint_id, field));
  return AtStep(step);
}

absl::StatusOr<v1::Checkpoint> FindCheckpoint(const Catalog& catalog, const CheckpointName& name,
                                              absl::string_view field) {
  LORSA_ASSIGN_OR_RETURN(const Checkpoints checkpoints, catalog.ListCheckpoints(name.job_id));
  return FindCheckpoint(checkpoints, name, field);
}

absl::StatusOr<v1::Checkpoint> FindCheckpoint(const std::vector<v1::Checkpoint>& checkpoints,
                                              const CheckpointName& name, absl::string_view field) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointChoice choose, ChoiceOf(name, field));
  LORSA_ASSIGN_OR_RETURN(const int64_t step, choose(checkpoints));
  return CheckpointOf(checkpoints, step, name.job_id);
}

}  // namespace lorsa::server

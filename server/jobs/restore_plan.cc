#include "server/jobs/restore_plan.h"

#include <cstdint>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/identifiers.h"
#include "base/status_macros.h"
#include "server/catalog/catalog_backup.h"
#include "server/jobs/list_if_there.h"

namespace lorsa::server {
namespace {

absl::Status FindUnknown(FileSystem& fs, const DataLayout& layout, const CheckpointSteps& known,
                         RestorePlan& plan) {
  LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListIfThere(fs, layout.JobsFolder()));
  for (const std::string& id : ids) {
    if (!ValidateId("job id", id).ok()) continue;
    const auto job = known.find(id);
    if (job == known.end()) {
      plan.unknown.push_back(layout.JobFolder(id));
      continue;
    }
    LORSA_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           ListIfThere(fs, layout.CheckpointsFolder(id)));
    for (const std::string& name : names) {
      const std::optional<int64_t> step = StepOfCheckpointId(name);
      if (step.has_value() && job->second.contains(*step)) continue;
      plan.unknown.push_back(JoinPath(layout.CheckpointsFolder(id), name));
    }
  }
  return absl::OkStatus();
}

absl::Status FindMissing(FileSystem& fs, const DataLayout& layout, const CheckpointSteps& known,
                         RestorePlan& plan) {
  for (const auto& [id, steps] : known) {
    for (const int64_t step : steps) {
      const std::string folder = layout.CheckpointFolder(id, step);
      LORSA_ASSIGN_OR_RETURN(const bool exists, fs.Exists(folder));
      if (!exists) plan.missing.push_back(folder);
    }
  }
  return absl::OkStatus();
}

void AppendPaths(const std::vector<std::string>& paths, std::string& text) {
  for (const std::string& path : paths) absl::StrAppend(&text, "  ", path, "\n");
}

}  // namespace

std::string RestorePlan::Describe(bool set_aside) const {
  std::string text;
  if (!unknown.empty()) {
    absl::StrAppend(&text, "The backup does not know these folders. ",
                    set_aside ? "They are moved to lost+found in the data folder:\n"
                              : "The next start of lorsad lists again what is whole of them, and "
                                "moves the rest to lost+found in the data folder:\n");
    AppendPaths(unknown, text);
  }
  if (!missing.empty()) {
    absl::StrAppend(&text,
                    "The backup lists these checkpoints, which are not in the data folder. "
                    "They leave the list, unless they are pinned:\n");
    AppendPaths(missing, text);
  }
  if (text.empty()) text = "The backup knows all that the data folder holds.\n";
  return absl::StrCat(text, "Nothing is deleted.\n");
}

absl::StatusOr<RestorePlan> PlanRestore(FileSystem& fs, const std::string& backup,
                                        const DataLayout& layout) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointSteps known, ReadCheckpointSteps(backup));
  RestorePlan plan;
  LORSA_RETURN_IF_ERROR(FindUnknown(fs, layout, known, plan));
  LORSA_RETURN_IF_ERROR(FindMissing(fs, layout, known, plan));
  return plan;
}

}  // namespace lorsa::server

#include "server/kinds/initial_checkpoint.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_name.h"
#include "trainer/config/checkpoint_config.h"
#include "trainer/config/weights_from_config.h"

namespace lorsa::server {
namespace {

constexpr char kConfigFile[] = "config.json";
constexpr uint64_t kMaxConfigBytes = 1 << 20;

absl::Status Damaged(const v1::Checkpoint& checkpoint, absl::string_view how) {
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        checkpoint.name(), " is damaged: ", how, "; start from another one")),
                    "DAMAGED_CHECKPOINT", {{"checkpoint", checkpoint.name()}});
}

// As the catalog knows it; empty if the checkpoint has none.
std::string ConfigSha256(const v1::Checkpoint& checkpoint) {
  const auto file =
      std::find_if(checkpoint.files().begin(), checkpoint.files().end(),
                   [](const v1::CheckpointFile& f) { return f.name() == kConfigFile; });
  return file == checkpoint.files().end() ? "" : file->sha256();
}

absl::StatusOr<trainer::CheckpointConfig> ReadConfig(FileSystem& fs, const std::string& folder,
                                                     const v1::Checkpoint& checkpoint) {
  const absl::StatusOr<std::string> text =
      ReadFile(fs, JoinPath(folder, kConfigFile), kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return Damaged(checkpoint, "it has no config.json");
  LORSA_RETURN_IF_ERROR(text.status());
  if (Sha256Hex(*text) != ConfigSha256(checkpoint)) {
    return Damaged(checkpoint, "the sha256 of its config.json differs");
  }
  absl::StatusOr<trainer::CheckpointConfig> config = trainer::ParseCheckpointConfig(*text);
  if (!config.ok()) return Damaged(checkpoint, config.status().message());
  return config;
}

}  // namespace

absl::StatusOr<InitialCheckpoint> FindInitialCheckpoint(const Catalog& catalog, FileSystem& fs,
                                                        const DataLayout& layout,
                                                        const std::string& name,
                                                        absl::string_view field) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointName parsed, ParseCheckpointName(name, field));
  InitialCheckpoint initial;
  LORSA_ASSIGN_OR_RETURN(initial.checkpoint, FindCheckpoint(catalog, parsed, field));
  const v1::Checkpoint& checkpoint = initial.checkpoint;
  if (!checkpoint.damage().empty()) return Damaged(checkpoint, checkpoint.damage());
  LORSA_ASSIGN_OR_RETURN(
      const trainer::CheckpointConfig config,
      ReadConfig(fs, layout.CheckpointFolder(parsed.job_id, checkpoint.step()), checkpoint));
  initial.weights = worker::WeightsFromConfig(config);
  return initial;
}

}  // namespace lorsa::server

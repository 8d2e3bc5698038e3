#include "server/jobs/checkpoint_contents.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/json_fields.h"
#include "base/status_macros.h"
#include "trainer/config/weights_from_config.h"

namespace lorsa::server {
namespace {

constexpr uint64_t kMaxJsonBytes = 1 << 20;
constexpr int kMaxJsonDepth = 16;
constexpr int64_t kMaxStep = 999'999'999;  // nine digits (docs/checkpoint_format.md)
constexpr int64_t kMaxSequences = int64_t{1} << 30;

absl::Status Invalid(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<std::string> ReadJsonText(FileSystem& fs, const std::string& path) {
  LORSA_RETURN_IF_ERROR(CheckJsonSize(fs, path));
  return ReadFile(fs, path, kMaxJsonBytes);
}

// A member of an object of which only some matter here.
int64_t Count(const nlohmann::json& json, const char* key, int64_t min, int64_t max,
              absl::Status& status) {
  const auto found = json.find(key);
  if (found != json.end() && found->is_number_integer()) {
    const auto value = found->get<int64_t>();
    if (value >= min && value <= max) return value;
  }
  status.Update(absl::InvalidArgumentError(
      absl::StrCat("\"", key, "\" must be an integer of ", min, " to ", max)));
  return min;
}

absl::Status ReadConfiguration(FileSystem& fs, const std::string& path,
                               CheckpointContents& contents) {
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadJsonText(fs, path));
  absl::StatusOr<trainer::CheckpointConfig> config = trainer::ParseCheckpointConfig(text);
  if (!config.ok()) return Invalid(path, config.status().message());
  contents.config = *std::move(config);
  return absl::OkStatus();
}

absl::Status CheckStateFormat(const nlohmann::json& json) {
  const auto format = json.find("format"), version = json.find("format_version");
  if (format != json.end() && *format == "lorsa-training-state" && version != json.end() &&
      *version == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("is not of the format lorsa-training-state, version 1");
}

// A checkpoint of another program need not have a state to go on from.
absl::Status ReadState(FileSystem& fs, const std::string& path, CheckpointContents& contents) {
  LORSA_ASSIGN_OR_RETURN(const bool exists, fs.Exists(path));
  if (!exists) return absl::OkStatus();
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadJsonText(fs, path));
  const absl::StatusOr<nlohmann::json> json = ParseJsonObject(text, kMaxJsonDepth);
  if (!json.ok()) return Invalid(path, json.status().message());
  absl::Status status = CheckStateFormat(*json);
  contents.step = Count(*json, "step", 0, kMaxStep, status);
  contents.sequences = Count(*json, "sequences_consumed", 0, kMaxSequences, status);
  if (const auto fvu = json->find("fvu"); fvu != json->end() && fvu->is_number()) {
    contents.fvu = fvu->get<double>();
  }
  if (const auto at = json->find("evaluated_step"); at != json->end() && at->is_number_integer()) {
    contents.evaluated_step = at->get<int64_t>();
  }
  return status.ok() ? status : Invalid(path, status.message());
}

}  // namespace

absl::Status CheckJsonSize(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const auto file, fs.OpenForRead(path));
  return file->size() > kMaxJsonBytes ? Invalid(path, "is longer than 1 MiB") : absl::OkStatus();
}

absl::StatusOr<CheckpointContents> ReadCheckpointContents(FileSystem& fs,
                                                          const std::string& folder) {
  CheckpointContents contents;
  LORSA_RETURN_IF_ERROR(ReadConfiguration(fs, JoinPath(folder, kConfigFile), contents));
  LORSA_RETURN_IF_ERROR(ReadState(fs, JoinPath(folder, kStateFile), contents));
  return contents;
}

NewJob JobOfCheckpoint(const std::string& job_id, const CheckpointContents& contents) {
  NewJob job{.id = job_id};
  *job.spec.mutable_training() = worker::WeightsFromConfig(contents.config).lorsa;
  job.resolved_spec = job.spec;
  return job;
}

}  // namespace lorsa::server

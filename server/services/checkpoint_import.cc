// The numbers are those of the protocol in checkpoint_import.h.
#include "server/services/checkpoint_import.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/json_fields.h"
#include "base/safetensors.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_files.h"
#include "server/rpc/errors.h"
#include "trainer/train/checkpoint_config.h"
#include "trainer/worker/weights_from_config.h"

namespace lorsa::server {
namespace {

constexpr uint64_t kMaxJsonBytes = 1 << 20;
constexpr int kMaxJsonDepth = 16;
constexpr int64_t kPieceBytes = 1 << 20;
constexpr int64_t kMaxStep = 999'999'999;  // nine digits (docs/checkpoint_format.md)
constexpr int64_t kMaxCount = int64_t{1} << 50;
constexpr char kWeightsFile[] = "lorsa.safetensors";
constexpr char kConfigFile[] = "config.json";
constexpr char kStateFile[] = "state.json";

// What the server needs to know of config.json and state.json.
struct Contents {
  trainer::CheckpointConfig config;
  int64_t step = 0, sequences = 0;
  std::optional<double> fvu;
};

absl::Status Invalid(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

absl::Status CheckJsonSize(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const auto file, fs.OpenForRead(path));
  return file->size() > kMaxJsonBytes ? Invalid(path, "is longer than 1 MiB") : absl::OkStatus();
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

absl::Status ReadConfiguration(FileSystem& fs, const std::string& path, Contents& contents) {
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
absl::Status ReadState(FileSystem& fs, const std::string& path, Contents& contents) {
  LORSA_ASSIGN_OR_RETURN(const bool exists, fs.Exists(path));
  if (!exists) return absl::OkStatus();
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadJsonText(fs, path));
  const absl::StatusOr<nlohmann::json> json = ParseJsonObject(text, kMaxJsonDepth);
  if (!json.ok()) return Invalid(path, json.status().message());
  absl::Status status = CheckStateFormat(*json);
  contents.step = Count(*json, "step", 0, kMaxStep, status);
  contents.sequences = Count(*json, "sequences_consumed", 0, kMaxCount / (1 << 20), status);
  if (const auto fvu = json->find("fvu"); fvu != json->end() && fvu->is_number()) {
    contents.fvu = fvu->get<double>();
  }
  return status.ok() ? status : Invalid(path, status.message());
}

std::map<std::string, std::vector<int64_t>> ShapesOf(const trainer::LorsaConfig& c) {
  std::map<std::string, std::vector<int64_t>> shapes = {{"W_Q", {c.n_qk_heads, c.d_model, c.d_qk}},
                                                        {"W_K", {c.n_qk_heads, c.d_model, c.d_qk}},
                                                        {"b_Q", {c.n_qk_heads, c.d_qk}},
                                                        {"b_K", {c.n_qk_heads, c.d_qk}},
                                                        {"W_V", {c.n_ov_heads, c.d_model}},
                                                        {"b_V", {c.n_ov_heads}},
                                                        {"W_O", {c.n_ov_heads, c.d_model}}};
  if (c.decoder_bias) shapes["b_D"] = {c.d_model};
  if (c.qk_norm) shapes["ln_q.w"] = shapes["ln_k.w"] = {c.n_qk_heads, c.d_qk};
  return shapes;
}

absl::Status CheckWeights(FileSystem& fs, const std::string& path, const Contents& contents) {
  LORSA_ASSIGN_OR_RETURN(const SafetensorsReader weights, SafetensorsReader::Open(fs, path));
  const auto shapes = ShapesOf(contents.config.lorsa);
  for (const auto& [name, shape] : shapes) {
    const auto found = weights.entries().find(name);
    if (found == weights.entries().end()) return Invalid(path, absl::StrCat("has no ", name));
    if (found->second.dtype != "F32" || found->second.shape != shape) {
      return Invalid(path, absl::StrCat(name, " has not the type F32 and the shape that ",
                                        kConfigFile, " asks for"));
    }
  }
  if (weights.entries().size() == shapes.size()) return absl::OkStatus();
  return Invalid(path, absl::StrCat("has tensors that ", kConfigFile, " does not speak of"));
}

class Import {
 public:
  Import(const ImportEnvironment& environment, const std::string& job_id, const std::string& folder,
         const std::function<bool(int64_t, int64_t)>& progress)
      : env_(environment),
        job_id_(job_id),
        source_(folder),
        copy_(env_.layout.ImportFolder(job_id)),
        progress_(progress) {}

  absl::StatusOr<v1::Checkpoint> Run() {
    LORSA_RETURN_IF_ERROR(RefuseTakenId());
    LORSA_RETURN_IF_ERROR(env_.fs.RemoveAll(copy_));  // 1
    absl::StatusOr<v1::Checkpoint> checkpoint = CopyAndCheck();
    if (!checkpoint.ok()) {
      env_.fs.RemoveAll(copy_).IgnoreError();  // The first error is the one to report.
      return checkpoint;
    }
    LORSA_RETURN_IF_ERROR(RefuseTakenId());
    LORSA_RETURN_IF_ERROR(MoveIntoPlace(checkpoint->step()));                // 5
    return env_.catalog.ImportCheckpoint(JobOf(), *checkpoint, env_.now());  // 6
  }

 private:
  absl::Status RefuseTakenId() const {
    const absl::Status is_free = env_.catalog.CheckJobIdIsFree(job_id_);
    if (!absl::IsAlreadyExists(is_free)) return is_free;
    return WithReason(is_free, "JOB_EXISTS", {{"job", job_id_}});
  }

  absl::StatusOr<v1::Checkpoint> CopyAndCheck() {
    const Inspection source = env_.inspector.InspectCheckpoint(source_);  // 2
    LORSA_RETURN_IF_ERROR(source.status);
    const std::string manifest_path = JoinPath(source_, kManifestFile);
    LORSA_RETURN_IF_ERROR(CheckJsonSize(*source.files, manifest_path));
    LORSA_ASSIGN_OR_RETURN(const std::string manifest_sha256,
                           Sha256OfFile(*source.files, manifest_path));
    LORSA_ASSIGN_OR_RETURN(std::vector<v1::CheckpointFile> listed,
                           ReadCheckpointManifest(*source.files, source_, manifest_sha256));
    LORSA_RETURN_IF_ERROR(CheckRoom(listed));
    LORSA_RETURN_IF_ERROR(env_.fs.CreateDirectories(copy_));
    for (const v1::CheckpointFile& file : listed) LORSA_RETURN_IF_ERROR(Copy(file));  // 2
    LORSA_RETURN_IF_ERROR(env_.fs.SyncDirectory(copy_));
    LORSA_ASSIGN_OR_RETURN(const auto files,
                           VerifyCheckpointFiles(env_.fs, copy_, manifest_sha256));  // 3
    const Inspection copy = env_.inspector.InspectCheckpoint(copy_);                 // 4
    LORSA_RETURN_IF_ERROR(copy.status);
    LORSA_RETURN_IF_ERROR(ReadConfiguration(*copy.files, JoinPath(copy_, kConfigFile), contents_));
    LORSA_RETURN_IF_ERROR(ReadState(*copy.files, JoinPath(copy_, kStateFile), contents_));
    LORSA_RETURN_IF_ERROR(CheckWeights(*copy.files, JoinPath(copy_, kWeightsFile), contents_));
    v1::Checkpoint checkpoint;
    checkpoint.set_step(contents_.step);
    checkpoint.set_tokens(contents_.sequences * contents_.config.context);
    if (contents_.fvu.has_value()) checkpoint.set_fvu(*contents_.fvu);
    checkpoint.mutable_files()->Assign(files.begin(), files.end());
    return checkpoint;
  }

  absl::Status CheckRoom(const std::vector<v1::CheckpointFile>& files) {
    for (const v1::CheckpointFile& file : files) {
      if (file.size_bytes() > kMaxCount) return Invalid(source_, "lists a file of absurd size");
      bytes_total_ += file.size_bytes();
    }
    LORSA_ASSIGN_OR_RETURN(const uint64_t free_bytes, env_.fs.FreeBytes(env_.layout.root()));
    if (static_cast<int64_t>(free_bytes) - bytes_total_ >= env_.disk_reserve_bytes) {
      return absl::OkStatus();
    }
    return WithReason(absl::ResourceExhaustedError(absl::StrCat(
                          "the checkpoint has ", bytes_total_, " bytes, the server's disk ",
                          free_bytes, " free, of which ", env_.disk_reserve_bytes,
                          " are in reserve; make room there and try again")),
                      "DISK_RESERVE");
  }

  absl::Status Copy(const v1::CheckpointFile& listed) {
    const std::string path = JoinPath(source_, listed.name());
    LORSA_ASSIGN_OR_RETURN(const auto from, env_.fs.OpenForRead(path));
    if (from->size() != static_cast<uint64_t>(listed.size_bytes())) {
      return absl::DataLossError(absl::StrCat(path, " has ", from->size(),
                                              " bytes, its manifest says ", listed.size_bytes()));
    }
    LORSA_ASSIGN_OR_RETURN(const auto to, env_.fs.Create(JoinPath(copy_, listed.name())));
    std::string piece;
    for (int64_t offset = 0; offset < listed.size_bytes();) {
      piece.resize(static_cast<size_t>(std::min(kPieceBytes, listed.size_bytes() - offset)));
      LORSA_RETURN_IF_ERROR(from->ReadAt(static_cast<uint64_t>(offset), absl::MakeSpan(piece)));
      LORSA_RETURN_IF_ERROR(to->Append(piece));
      offset += static_cast<int64_t>(piece.size());
      bytes_done_ += static_cast<int64_t>(piece.size());
      if (!progress_(bytes_done_, bytes_total_)) {
        return absl::CancelledError("the client cancelled the import");
      }
    }
    LORSA_RETURN_IF_ERROR(to->Sync());
    return to->Close();
  }

  absl::Status MoveIntoPlace(int64_t step) {
    const std::string target = env_.layout.CheckpointFolder(job_id_, step);
    LORSA_RETURN_IF_ERROR(env_.fs.CreateDirectories(DirectoryOf(target)));
    LORSA_RETURN_IF_ERROR(env_.fs.RemoveAll(target));
    LORSA_RETURN_IF_ERROR(env_.fs.Rename(copy_, target));
    for (std::string folder = DirectoryOf(target); folder.size() >= env_.layout.root().size();
         folder = DirectoryOf(folder)) {
      LORSA_RETURN_IF_ERROR(env_.fs.SyncDirectory(folder));
    }
    return absl::OkStatus();
  }

  // What is known of the run: what its weights are of.
  NewJob JobOf() const {
    NewJob job{.id = job_id_, .spec = worker::WeightsFromConfig(contents_.config).lorsa};
    job.resolved_spec = job.spec;
    return job;
  }

  const ImportEnvironment& env_;
  const std::string& job_id_;
  const std::string& source_;
  const std::string copy_;
  const std::function<bool(int64_t, int64_t)>& progress_;
  Contents contents_;
  int64_t bytes_total_ = 0, bytes_done_ = 0;
};

}  // namespace

absl::StatusOr<v1::Checkpoint> ImportCheckpoint(
    const ImportEnvironment& environment, const std::string& job_id, const std::string& folder,
    const std::function<bool(int64_t, int64_t)>& progress) {
  return Import(environment, job_id, folder, progress).Run();
}

}  // namespace lorsa::server

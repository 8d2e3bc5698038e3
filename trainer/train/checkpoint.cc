// Protocol of a checkpoint, which is durable once its folder is renamed by the host:
//   1. refuse numbers that are not finite
//   2. make the staging folder anew
//   3. write and fsync lorsa.safetensors, config.json, state.safetensors, state.json
//   4. write and fsync manifest.json with their sizes and checksums
//   5. fsync the folder; the host renames it
// A crash before the rename leaves a folder in the staging place that nobody reads and that the
// host removes with the next attempt. A reader goes the other way: manifest, checksums, shapes,
// contents.
#include "trainer/train/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/base/casts.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/json_fields.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "trainer/kernels/block_gemm.h"
#include "trainer/kernels/loops.h"
#include "trainer/lorsa/tensor_file.h"
#include "trainer/train/configure_libtorch.h"
#include "trainer/train/rollback.h"

namespace lorsa::trainer {
namespace {

using nlohmann::json;

constexpr char kWeightsFile[] = "lorsa.safetensors";
constexpr char kConfigFile[] = "config.json";
constexpr char kStateFile[] = "state.safetensors";
constexpr char kCountsFile[] = "state.json";
constexpr const char* kListedFiles[] = {kWeightsFile, kConfigFile, kStateFile, kCountsFile};

constexpr char kManifestFormat[] = "lorsa-checkpoint-manifest";
constexpr int kFormatVersion = 1;
constexpr uint64_t kMaxJsonBytes = 1 << 20;

struct ListedFile {
  int64_t bytes = 0;
  std::string sha256;
};

struct CheckpointManifest {
  std::map<std::string, ListedFile> files;
  Environment environment;
};

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, " is damaged: ", what, "."));
}

// --- Writing ---

bool AllFinite(const at::Tensor& tensor) {
  if (!tensor.is_floating_point()) return true;
  if (tensor.scalar_type() != at::kFloat || !tensor.is_cpu() || !tensor.is_contiguous()) {
    return tensor.isfinite().all().item<bool>();
  }
  // By hand: libtorch would share the pass out among threads that training needs.
  constexpr uint32_t kExponent = 0x7f800000;
  const auto* const data = static_cast<const float*>(tensor.const_data_ptr());
  uint32_t not_finite = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    not_finite |= (absl::bit_cast<uint32_t>(data[i]) & kExponent) == kExponent;
  }
  return not_finite == 0;
}

absl::Status CheckFinite(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!AllFinite(tensor)) {
      return NotFiniteError(absl::StrCat(
          name, " has NaN or Inf, so no checkpoint is made; lower the learning rate."));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteText(FileSystem& fs, const std::string& path, absl::string_view text) {
  LORSA_ASSIGN_OR_RETURN(auto file, fs.Create(path));
  LORSA_RETURN_IF_ERROR(file->Append(text));
  LORSA_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::StatusOr<json> ListFile(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const auto file, fs.OpenForRead(path));
  LORSA_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(fs, path));
  return json{{"bytes", file->size()}, {"sha256", sha256}};
}

absl::StatusOr<std::string> FormatManifest(FileSystem& fs, const std::string& path,
                                           const Environment& environment, absl::Time created) {
  json files;
  for (const char* name : kListedFiles) {
    LORSA_ASSIGN_OR_RETURN(files[name], ListFile(fs, JoinPath(path, name)));
  }
  const json manifest = {
      {"format", kManifestFormat},
      {"format_version", kFormatVersion},
      {"created", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", created, absl::UTCTimeZone())},
      {"environment",
       {{"build", environment.build},
        {"instruction_set", environment.instruction_set},
        {"threads", environment.threads},
        {"ranks", environment.ranks},
        {"torch", environment.torch}}},
      {"files", files}};
  return manifest.dump(2) + "\n";
}

absl::StatusOr<std::string> WriteFolder(FileSystem& fs, const std::string& path,
                                        const CheckpointContents& contents, absl::Time created) {
  LORSA_RETURN_IF_ERROR(CheckFinite(contents.weights));  // 1
  LORSA_RETURN_IF_ERROR(CheckFinite(contents.state));
  LORSA_RETURN_IF_ERROR(fs.RemoveAll(path));  // 2
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(path));
  LORSA_RETURN_IF_ERROR(WriteTensorFile(fs, JoinPath(path, kWeightsFile), contents.weights));  // 3
  LORSA_RETURN_IF_ERROR(WriteTensorFile(fs, JoinPath(path, kStateFile), contents.state));
  LORSA_RETURN_IF_ERROR(
      WriteText(fs, JoinPath(path, kConfigFile), FormatCheckpointConfig(contents.config)));
  LORSA_RETURN_IF_ERROR(
      WriteText(fs, JoinPath(path, kCountsFile), FormatTrainingCounts(contents.counts)));
  LORSA_ASSIGN_OR_RETURN(const std::string manifest,
                         FormatManifest(fs, path, contents.environment, created));
  LORSA_RETURN_IF_ERROR(WriteText(fs, JoinPath(path, kCheckpointManifestFile), manifest));  // 4
  LORSA_RETURN_IF_ERROR(fs.SyncDirectory(path));                                            // 5
  return Sha256Hex(manifest);
}

// --- Reading ---

Environment TakeEnvironment(JsonFields& fields) {
  JsonFields members(fields.Required("environment"), "environment");
  Environment environment{.build = members.Text("build"),
                          .instruction_set = members.Text("instruction_set"),
                          .threads = members.Integer("threads", 1, 1 << 20),
                          .ranks = members.Has("ranks") ? members.Integer("ranks", 1, 1 << 20) : 1,
                          .torch = members.Text("torch")};
  fields.Take(members.Finish());
  return environment;
}

// What only going on from a checkpoint needs.
bool IsState(absl::string_view name) { return name == kStateFile || name == kCountsFile; }

absl::StatusOr<CheckpointManifest> ParseManifest(absl::string_view text) {
  LORSA_ASSIGN_OR_RETURN(const json value, ParseJsonObject(text, /*max_depth=*/3));
  JsonFields fields(value, "");
  if (fields.Text("format") != kManifestFormat) fields.Fail("format", "is of another kind");
  fields.Integer("format_version", kFormatVersion, kFormatVersion);
  fields.Text("created");
  CheckpointManifest manifest{.environment = TakeEnvironment(fields)};
  JsonFields files(fields.Required("files"), "files");
  for (const char* name : kListedFiles) {
    if (IsState(name) && !files.Has(name)) continue;
    JsonFields file(files.Required(name), files.Path(name));
    manifest.files[name] = {.bytes = file.Integer("bytes", 0, std::numeric_limits<int64_t>::max()),
                            .sha256 = file.Text("sha256")};
    files.Take(file.Finish());
  }
  fields.Take(files.Finish());
  LORSA_RETURN_IF_ERROR(fields.Finish());
  return manifest;
}

// Reads and parses a JSON file; what is wrong in it is damage of the file.
template <typename T>
absl::StatusOr<T> ReadJson(FileSystem& fs, const std::string& path,
                           absl::StatusOr<T> (*parse)(absl::string_view)) {
  LORSA_ASSIGN_OR_RETURN(const std::string text, ReadFile(fs, path, kMaxJsonBytes));
  absl::StatusOr<T> value = parse(text);
  if (!value.ok()) return Damaged(path, value.status().message());
  return value;
}

absl::Status VerifyFile(FileSystem& fs, const std::string& path, const ListedFile& listed) {
  LORSA_ASSIGN_OR_RETURN(const auto file, fs.OpenForRead(path));
  if (static_cast<int64_t>(file->size()) != listed.bytes) {
    return Damaged(path, absl::StrCat("it has ", file->size(), " bytes instead of ", listed.bytes));
  }
  LORSA_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(fs, path));
  if (sha256 != listed.sha256) return Damaged(path, "its sha256 is not that of the manifest");
  return absl::OkStatus();
}

// The manifest, after each file that it lists was held against it.
absl::StatusOr<CheckpointManifest> VerifyFiles(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointManifest manifest,
                         ReadJson(fs, JoinPath(path, kCheckpointManifestFile), &ParseManifest));
  for (const auto& [name, listed] : manifest.files) {
    LORSA_RETURN_IF_ERROR(VerifyFile(fs, JoinPath(path, name), listed));
  }
  return manifest;
}

}  // namespace

Environment CurrentEnvironment(int64_t ranks) {
  return {.build = absl::StrCat(LORSA_VERSION, ", compiler ", __VERSION__),
          .instruction_set =
              absl::StrCat(at::get_cpu_capability(), ", ", kernels::LevelName(kernels::BestLevel()),
                           ", bf16 by ", kernels::MultiplierName<kernels::Bf16>()),
          .threads = ThreadsInUse(),
          .ranks = ranks,
          .torch = TORCH_VERSION};
}

CheckpointContents ContentsOf(const Checkpoint& checkpoint) {
  const LorsaConfig& lorsa = checkpoint.config.lorsa;
  return {.config = checkpoint.config,
          .weights = WeightTensors(lorsa, checkpoint.state),
          .state = StateTensors(lorsa, checkpoint.state),
          .counts = checkpoint.state.counts,
          .environment = checkpoint.environment};
}

std::string CheckpointFolderName(int64_t step) { return absl::StrFormat("step-%09d", step); }

int64_t StepOfCheckpointFolder(absl::string_view path) {
  const absl::string_view name = path.substr(path.rfind('/') + 1);
  absl::string_view digits = name;
  int64_t step = 0;
  const bool parsed = absl::ConsumePrefix(&digits, "step-") && absl::SimpleAtoi(digits, &step);
  return parsed && step >= 0 && name == CheckpointFolderName(step) ? step : -1;
}

absl::StatusOr<std::string> WriteCheckpoint(FileSystem& fs, const std::string& path,
                                            const CheckpointContents& contents,
                                            absl::Time created) {
  absl::StatusOr<std::string> sha256 = WriteFolder(fs, path, contents, created);
  // The first error counts; what stays behind is removed by the next attempt.
  if (!sha256.ok()) fs.RemoveAll(path).IgnoreError();
  return sha256;
}

absl::StatusOr<TrainingCounts> ReadCheckpointCounts(FileSystem& fs, const std::string& path) {
  return ReadJson(fs, JoinPath(path, kCountsFile), &ParseTrainingCounts);
}

absl::StatusOr<CheckpointWeights> ReadCheckpointWeights(FileSystem& fs, const std::string& path,
                                                        at::Device device) {
  LORSA_RETURN_IF_ERROR(VerifyFiles(fs, path).status());
  CheckpointWeights weights;
  LORSA_ASSIGN_OR_RETURN(weights.config,
                         ReadJson(fs, JoinPath(path, kConfigFile), &ParseCheckpointConfig));
  LORSA_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(fs, JoinPath(path, kWeightsFile)));
  LORSA_ASSIGN_OR_RETURN(weights.parameters, ReadWeights(weights.config.lorsa, file, device));
  return weights;
}

absl::StatusOr<Checkpoint> ReadCheckpoint(FileSystem& fs, const std::string& path,
                                          at::Device device) {
  LORSA_ASSIGN_OR_RETURN(const CheckpointManifest manifest, VerifyFiles(fs, path));
  for (const char* name : {kStateFile, kCountsFile}) {
    if (!manifest.files.contains(name)) {
      return Damaged(path, absl::StrCat("its manifest does not list ", name));
    }
  }
  Checkpoint checkpoint;
  checkpoint.environment = manifest.environment;
  LORSA_ASSIGN_OR_RETURN(checkpoint.config,
                         ReadJson(fs, JoinPath(path, kConfigFile), &ParseCheckpointConfig));
  LORSA_ASSIGN_OR_RETURN(const TrainingCounts counts,
                         ReadJson(fs, JoinPath(path, kCountsFile), &ParseTrainingCounts));
  LORSA_ASSIGN_OR_RETURN(const TensorFile weights,
                         TensorFile::Open(fs, JoinPath(path, kWeightsFile)));
  LORSA_ASSIGN_OR_RETURN(const TensorFile state, TensorFile::Open(fs, JoinPath(path, kStateFile)));
  LORSA_ASSIGN_OR_RETURN(checkpoint.state,
                         ReadState(checkpoint.config.lorsa, counts, weights, state, device));
  return checkpoint;
}

}  // namespace lorsa::trainer

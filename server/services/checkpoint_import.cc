// The numbers are those of the protocol in checkpoint_import.h.
#include "server/services/checkpoint_import.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/error_details.h"
#include "base/safetensors.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "server/jobs/checkpoint_contents.h"
#include "server/jobs/checkpoint_files.h"

namespace lorsa::server {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;
constexpr int64_t kMaxCount = int64_t{1} << 50;
constexpr char kWeightsFile[] = "lorsa.safetensors";

absl::Status Invalid(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
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

absl::Status CheckWeights(FileSystem& fs, const std::string& path,
                          const CheckpointContents& contents) {
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
    if (checkpoint.ok()) {
      checkpoint = env_.jobs.ImportCheckpoint(JobOfCheckpoint(job_id_, contents_), *checkpoint,
                                              copy_);  // 5, 6
    }
    if (checkpoint.ok()) return checkpoint;
    env_.fs.RemoveAll(copy_).IgnoreError();  // The first error is the one to report.
    return WithJobExists(checkpoint.status());
  }

 private:
  absl::Status RefuseTakenId() const {
    return WithJobExists(env_.catalog.CheckJobIdIsFree(job_id_));
  }

  absl::Status WithJobExists(const absl::Status& status) const {
    if (!absl::IsAlreadyExists(status)) return status;
    return WithReason(status, "JOB_EXISTS", {{"job", job_id_}});
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
    LORSA_ASSIGN_OR_RETURN(contents_, ReadCheckpointContents(*copy.files, copy_));
    LORSA_RETURN_IF_ERROR(CheckWeights(*copy.files, JoinPath(copy_, kWeightsFile), contents_));
    v1::Checkpoint checkpoint;
    checkpoint.set_step(contents_.step);
    checkpoint.set_tokens(contents_.tokens());
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

  const ImportEnvironment& env_;
  const std::string& job_id_;
  const std::string& source_;
  const std::string copy_;
  const std::function<bool(int64_t, int64_t)>& progress_;
  CheckpointContents contents_;
  int64_t bytes_total_ = 0, bytes_done_ = 0;
};

}  // namespace

absl::StatusOr<v1::Checkpoint> ImportCheckpoint(
    const ImportEnvironment& environment, const std::string& job_id, const std::string& folder,
    const std::function<bool(int64_t, int64_t)>& progress) {
  return Import(environment, job_id, folder, progress).Run();
}

}  // namespace lorsa::server

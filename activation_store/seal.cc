// Protocol of SealSet, for a folder without manifest.json:
//   1. find the shards: numbered from 0 without gaps, none half written (*.tmp)
//   2. read every byte: check the contents, compute sha256, norms, counts and checksums
//   3. fsync each shard, then the folder: their producer may not have
//   4. write checksums.h5 (WriteChecksums), or compare the one that is there
//   5. check attention.safetensors, compute its sha256, fsync it
//   6. write manifest.json (WriteFileAtomically)
// The shards are never written. A crash before 6 leaves the set unsealed and the next SealSet
// repeats the pass.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "activation_store/activation_set.h"
#include "activation_store/attention_weights.h"
#include "activation_store/checksums.h"
#include "activation_store/folder.h"
#include "activation_store/hdf5_library.h"
#include "activation_store/scan.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

// The number of shards in the folder.
absl::StatusOr<int64_t> CountShards(FileSystem& fs, const std::string& folder) {
  LORSA_ASSIGN_OR_RETURN(const auto names, fs.List(folder));
  int64_t shards = 0;
  for (const std::string& name : names) {  // sorted
    if (!absl::StartsWith(name, "shard-")) continue;
    if (absl::EndsWith(name, ".tmp")) {
      return absl::FailedPreconditionError(
          absl::StrCat(JoinPath(folder, name),
                       ": a shard is half written; finish the producer's "
                       "run or delete the file"));
    }
    if (name != ShardFile(shards)) {
      return DamagedFile(JoinPath(folder, name), absl::StrCat("expected ", ShardFile(shards),
                                                              " next; number the shards "
                                                              "from 0 without gaps"));
    }
    ++shards;
  }
  if (shards == 0) {
    return absl::NotFoundError(absl::StrCat(folder, ": holds no shard (shard-00000.h5)"));
  }
  if (shards > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": holds more than ", kMaxShards, " shards"));
  }
  return shards;
}

class Sealer {
 public:
  Sealer(FileSystem& fs, const std::string& folder) : fs_(fs), folder_(folder) {}

  absl::StatusOr<SealedSet> Seal(const std::string& now, const ProgressFunction& progress) {
    LORSA_ASSIGN_OR_RETURN(const int64_t shards, CountShards(fs_, folder_));  // 1
    LORSA_RETURN_IF_ERROR(ScanShards(shards, progress));                      // 2
    LORSA_RETURN_IF_ERROR(SyncShards());                                      // 3
    LORSA_RETURN_IF_ERROR(SealChecksums());                                   // 4
    LORSA_RETURN_IF_ERROR(SealAttention());                                   // 5
    if (manifest_.created.empty()) manifest_.created = now;
    LORSA_ASSIGN_OR_RETURN(Manifest manifest, WriteManifest());  // 6
    const double mean_norm = manifest.mean_output_norm;
    return SealedSet{.manifest = std::move(manifest), .outliers = norms_.Above(mean_norm)};
  }

 private:
  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }

  absl::Status ScanShards(int64_t shards, const ProgressFunction& progress) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < shards; ++i) {
      LORSA_ASSIGN_OR_RETURN(const auto file, fs_.OpenForRead(Path(ShardFile(i))));
      bytes += static_cast<int64_t>(file->size());
    }
    ProgressMeter meter(progress, 2 * bytes);
    double input_norm_sum = 0, output_norm_sum = 0;
    for (int64_t i = 0; i < shards; ++i) {
      LORSA_ASSIGN_OR_RETURN(const ShardReader::Opened opened,
                             ShardReader::Open(fs_, Path(ShardFile(i))));
      LORSA_RETURN_IF_ERROR(TakeShape(i, *opened.shard));
      LORSA_ASSIGN_OR_RETURN(ShardFacts facts,
                             ScanShard(
                                 fs_, opened, /*first=*/manifest_.sequences, meter,
                                 [](const auto& damage) { return damage; }, norms_));
      manifest_.shards.push_back(
          {{.file = ShardFile(i), .bytes = facts.bytes, .sha256 = facts.sha256},
           opened.shard->shape().sequences});
      manifest_.sequences += opened.shard->shape().sequences;
      manifest_.unmasked_tokens += facts.unmasked_tokens;
      input_norm_sum += facts.input_norm_sum;
      output_norm_sum += facts.output_norm_sum;
      checksums_.push_back(std::move(facts.checksums));
    }
    const double tokens = static_cast<double>(std::max<int64_t>(1, manifest_.unmasked_tokens));
    manifest_.mean_input_norm = input_norm_sum / tokens;
    manifest_.mean_output_norm = output_norm_sum / tokens;
    return absl::OkStatus();
  }

  // The first shard says what the set is, the others must be like it.
  absl::Status TakeShape(int64_t number, const ShardReader& shard) {
    if (number > 0) return shard.shape().CheckFits(shard.path(), shape_);
    shape_ = shard.shape();
    if (shard.set_attribute().has_value()) {
      auto description = ParseDescription(*shard.set_attribute());
      if (!description.ok()) {
        return DamagedFile(shard.path(), absl::StrCat("attribute '", kSetAttribute,
                                                      "': ", description.status().message()));
      }
      manifest_ = *std::move(description);
    }
    manifest_.context = shape_.context;
    manifest_.d_model = shape_.d_model;
    manifest_.element_type = shape_.element_type;
    return absl::OkStatus();
  }

  absl::Status SyncShards() {
    for (const ShardRecord& shard : manifest_.shards) {
      LORSA_RETURN_IF_ERROR(fs_.SyncFile(Path(shard.file)));
    }
    return fs_.SyncDirectory(folder_);
  }

  absl::Status SealChecksums() {
    LORSA_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(Path(kChecksumsFile)));
    if (exists) {
      LORSA_RETURN_IF_ERROR(CompareChecksums());
      LORSA_RETURN_IF_ERROR(fs_.SyncFile(Path(kChecksumsFile)));
    } else {
      LORSA_RETURN_IF_ERROR(WriteChecksums(fs_, Path(kChecksumsFile), checksums_));
    }
    LORSA_ASSIGN_OR_RETURN(manifest_.checksums, Record(kChecksumsFile));
    return absl::OkStatus();
  }

  absl::Status CompareChecksums() const {
    LORSA_ASSIGN_OR_RETURN(const ChecksumsReader reader, OpenChecksums(fs_, folder_, manifest_));
    for (size_t i = 0; i < checksums_.size(); ++i) {
      for (size_t row = 0; row < checksums_[i].size(); ++row) {
        LORSA_ASSIGN_OR_RETURN(const uint64_t stored, reader.Get(i, row));
        if (stored == checksums_[i][row]) continue;
        return DamagedFile(Path(manifest_.shards[i].file),
                           absl::StrCat("sequence ", row,
                                        " does not match checksums.h5; restore the "
                                        "shard, or delete checksums.h5 if the shard is right"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status SealAttention() {
    LORSA_ASSIGN_OR_RETURN(const bool exists, fs_.Exists(Path(kAttentionFile)));
    if (!exists) return absl::OkStatus();
    if (!manifest_.attention.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat(Path(kAttentionFile),
                       ": the set does not describe its attention; add it to "
                       "the attribute lorsa_set of shard-00000.h5"));
    }
    LORSA_RETURN_IF_ERROR(
        CheckAttentionWeights(fs_, Path(kAttentionFile), *manifest_.attention, manifest_.d_model));
    LORSA_RETURN_IF_ERROR(fs_.SyncFile(Path(kAttentionFile)));
    LORSA_ASSIGN_OR_RETURN(manifest_.attention_weights, Record(kAttentionFile));
    return absl::OkStatus();
  }

  absl::StatusOr<FileRecord> Record(const std::string& name) const {
    FileRecord record = {.file = name};
    LORSA_ASSIGN_OR_RETURN(const auto file, fs_.OpenForRead(Path(name)));
    record.bytes = static_cast<int64_t>(file->size());
    LORSA_ASSIGN_OR_RETURN(record.sha256, Sha256OfFile(fs_, Path(name)));
    return record;
  }

  absl::StatusOr<Manifest> WriteManifest() {
    const std::string text = FormatManifest(manifest_);
    // What is written must be what every reader accepts, and what the caller gets.
    auto manifest = ParseManifest(text);
    if (!manifest.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder_, ": the set cannot be described: ", manifest.status().message()));
    }
    LORSA_RETURN_IF_ERROR(WriteFileAtomically(fs_, Path(kManifestFile), text));
    return manifest;
  }

  FileSystem& fs_;
  const std::string& folder_;
  Manifest manifest_;
  ShardShape shape_;
  std::vector<std::vector<uint64_t>> checksums_;  // [shard][sequence]
  LargestNorms norms_;
};

}  // namespace

absl::StatusOr<SealedSet> SealSet(FileSystem& fs, const std::string& folder, const std::string& now,
                                  const ProgressFunction& progress) {
  LORSA_ASSIGN_OR_RETURN(const bool sealed, fs.Exists(JoinPath(folder, kManifestFile)));
  if (!sealed) return Sealer(fs, folder).Seal(now, progress);
  LORSA_ASSIGN_OR_RETURN(VerificationReport report, VerifySet(fs, folder, progress));
  if (!report.ok()) return absl::DataLossError(report.problems.front());
  LORSA_ASSIGN_OR_RETURN(SealedManifest read, ReadManifest(fs, folder));
  return SealedSet{.manifest = std::move(read.manifest), .outliers = std::move(report.outliers)};
}

}  // namespace lorsa::store

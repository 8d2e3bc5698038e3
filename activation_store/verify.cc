#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

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

constexpr size_t kMaxProblems = 100;
// Another producer may add up the norms in another order.
constexpr double kNormTolerance = 1e-6;  // relative

bool Near(double a, double b) { return std::abs(a - b) <= kNormTolerance * std::abs(b); }

class Verifier {
 public:
  Verifier(FileSystem& fs, const std::string& folder, const Manifest& manifest)
      : fs_(fs), folder_(folder), manifest_(manifest) {}

  absl::StatusOr<VerificationReport> Verify(const ProgressFunction& progress) {
    LORSA_RETURN_IF_ERROR(Note(CheckFile(manifest_.checksums)));
    auto checksums = OpenChecksums(fs_, folder_, manifest_);
    LORSA_RETURN_IF_ERROR(Note(checksums.status()));
    if (checksums.ok()) checksums_ = *std::move(checksums);
    if (manifest_.attention_weights.has_value()) LORSA_RETURN_IF_ERROR(Note(CheckAttention()));

    int64_t bytes = 0;
    for (const ShardRecord& shard : manifest_.shards) bytes += shard.bytes;
    ProgressMeter meter(progress, 2 * bytes);
    int64_t first = 0;
    for (size_t i = 0; i < manifest_.shards.size(); ++i) {
      LORSA_RETURN_IF_ERROR(Note(CheckShard(i, first, meter)));
      first += manifest_.shards[i].sequences;
    }
    // Sums over damaged shards would only repeat the damage in other words.
    if (report_.ok()) LORSA_RETURN_IF_ERROR(Note(CheckTotals()));
    report_.outliers = norms_.Above(manifest_.mean_output_norm);
    return std::move(report_);
  }

 private:
  std::string Path(const std::string& name) const { return JoinPath(folder_, name); }

  // Damage goes into the report; OK then, and for OK.
  absl::Status Note(const absl::Status& status) {
    if (status.ok() || !IsDamage(status)) return status;
    if (report_.problems.size() < kMaxProblems) {
      report_.problems.emplace_back(status.message());
    }
    return absl::OkStatus();
  }

  absl::Status CompareSha256(const FileRecord& record, const std::string& sha256) const {
    if (sha256 == record.sha256) return absl::OkStatus();
    return DamagedFile(Path(record.file),
                       "does not match the sha256 in manifest.json; restore the file");
  }

  absl::Status CheckFile(const FileRecord& record) const {
    LORSA_RETURN_IF_ERROR(CheckFileSize(fs_, folder_, record));
    LORSA_ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(fs_, Path(record.file)));
    return CompareSha256(record, sha256);
  }

  absl::Status CheckAttention() const {
    LORSA_RETURN_IF_ERROR(CheckFile(*manifest_.attention_weights));
    if (!manifest_.attention.has_value()) {
      return DamagedFile(Path(kManifestFile), "has attention_weights without attention");
    }
    return CheckAttentionWeights(fs_, Path(kAttentionFile), *manifest_.attention,
                                 manifest_.d_model);
  }

  // `first`: number in the set of the shard's first sequence.
  absl::Status CheckShard(size_t number, int64_t first, ProgressMeter& meter) {
    const ShardRecord& record = manifest_.shards[number];
    LORSA_ASSIGN_OR_RETURN(const ShardReader::Opened opened,
                           OpenShard(fs_, folder_, manifest_, record));
    LORSA_ASSIGN_OR_RETURN(
        const ShardFacts facts,
        ScanShard(
            fs_, opened, first, meter, [this](const absl::Status& damage) { return Note(damage); },
            norms_));
    report_.sequences_checked += record.sequences;
    unmasked_tokens_ += facts.unmasked_tokens;
    input_norm_sum_ += facts.input_norm_sum;
    output_norm_sum_ += facts.output_norm_sum;
    LORSA_RETURN_IF_ERROR(Note(CompareSha256(record, facts.sha256)));
    return CompareChecksums(number, facts);
  }

  // Skips the sequences that the scan found damaged (their checksum is 0) and reported.
  absl::Status CompareChecksums(size_t number, const ShardFacts& facts) {
    if (!checksums_.has_value()) return absl::OkStatus();  // reported already
    for (size_t row = 0; row < facts.checksums.size(); ++row) {
      LORSA_ASSIGN_OR_RETURN(const uint64_t expected, checksums_->Get(number, row));
      if (facts.checksums[row] == expected || facts.checksums[row] == 0) continue;
      LORSA_RETURN_IF_ERROR(Note(DamagedFile(
          Path(manifest_.shards[number].file),
          absl::StrCat("sequence ", row, " does not match its checksum; restore the file"))));
    }
    return absl::OkStatus();
  }

  absl::Status CheckTotals() const {
    const std::string path = Path(kManifestFile);
    if (unmasked_tokens_ != manifest_.unmasked_tokens) {
      return DamagedFile(path,
                         absl::StrCat("says ", manifest_.unmasked_tokens,
                                      " unmasked tokens, but the shards have ", unmasked_tokens_));
    }
    const double tokens = static_cast<double>(std::max<int64_t>(1, unmasked_tokens_));
    if (!Near(manifest_.mean_input_norm, input_norm_sum_ / tokens) ||
        !Near(manifest_.mean_output_norm, output_norm_sum_ / tokens)) {
      return DamagedFile(
          path, absl::StrCat("says other mean norms than the shards have (",
                             input_norm_sum_ / tokens, " and ", output_norm_sum_ / tokens, ")"));
    }
    return absl::OkStatus();
  }

  FileSystem& fs_;
  const std::string& folder_;
  const Manifest& manifest_;
  std::optional<ChecksumsReader> checksums_;
  VerificationReport report_;
  int64_t unmasked_tokens_ = 0;
  double input_norm_sum_ = 0, output_norm_sum_ = 0;
  LargestNorms norms_;
};

}  // namespace

absl::StatusOr<VerificationReport> VerifySet(FileSystem& fs, const std::string& folder,
                                             const ProgressFunction& progress) {
  const auto sealed = ReadManifest(fs, folder);
  if (absl::IsDataLoss(sealed.status())) {
    return VerificationReport{.problems = {std::string(sealed.status().message())}};
  }
  if (!sealed.ok()) return sealed.status();
  return Verifier(fs, folder, sealed->manifest).Verify(progress);
}

}  // namespace lorsa::store

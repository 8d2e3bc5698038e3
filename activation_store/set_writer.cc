// Protocol of one shard:
//   1. write shard-NNNNN.h5.tmp and close it
//   2. reopen it and compare the checksum of every sequence with the one taken in Append
//   3. fsync it
//   4. rename it to shard-NNNNN.h5
//   5. fsync the folder
// A crash before 4 leaves a .tmp, because of which the folder is not sealed.
#include "activation_store/set_writer.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "activation_store/checksums.h"
#include "activation_store/hdf5_library.h"
#include "activation_store/hdf5_writer.h"
#include "activation_store/shard_reader.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

// So that no dataset has more chunks than a reader accepts.
constexpr int64_t kMaxSequencesPerShard = kMaxChunks;

absl::Status CheckOptions(const WriterOptions& options) {
  const Manifest& set = options.description;
  LORSA_RETURN_IF_ERROR(CheckSequenceShape(set.context, set.d_model, set.element_type));
  if (options.sequences_per_shard < 1 || options.sequences_per_shard > kMaxSequencesPerShard) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequences_per_shard is not from 1 to ", kMaxSequencesPerShard));
  }
  // Refuse now what sealing would refuse after everything is written.
  const auto description = ParseDescription(FormatDescription(set));
  if (!description.ok()) return absl::InvalidArgumentError(description.status().message());
  return absl::OkStatus();
}

absl::Status CheckNoSet(FileSystem& fs, const std::string& folder) {
  LORSA_ASSIGN_OR_RETURN(const auto names, fs.List(folder));
  for (const std::string& name : names) {
    if (absl::StartsWith(name, "shard-") || absl::StartsWith(name, kManifestFile) ||
        absl::StartsWith(name, kChecksumsFile)) {
      return absl::AlreadyExistsError(
          absl::StrCat(JoinPath(folder, name), ": the folder holds a set; choose another folder"));
    }
  }
  return absl::OkStatus();
}

class SetWriterImpl final : public SetWriter {
 public:
  SetWriterImpl(FileSystem& fs, std::string folder, WriterOptions options)
      : fs_(fs), folder_(std::move(folder)), options_(std::move(options)) {}

  absl::Status Append(const Sequence& sequence) override {
    LORSA_RETURN_IF_ERROR(status_);
    LORSA_RETURN_IF_ERROR(CheckSizes(sequence));
    status_ = Write(sequence);  // After an error the shard is not what its rows say.
    return status_;
  }

  absl::StatusOr<Manifest> Seal(const std::string& now) override {
    LORSA_RETURN_IF_ERROR(status_);
    if (writer_ != nullptr) LORSA_RETURN_IF_ERROR(FinishShard());
    LORSA_ASSIGN_OR_RETURN(SealedSet sealed, SealSet(fs_, folder_, now, nullptr));
    return std::move(sealed.manifest);
  }

 private:
  std::string ShardPath() const { return JoinPath(folder_, ShardFile(shard_)); }

  absl::Status CheckSizes(const Sequence& sequence) const {
    const Manifest& set = options_.description;
    const size_t data = set.context * set.d_model * ElementSize(set.element_type);
    const size_t positions = set.context;
    if (sequence.mhsa_input.size() == data && sequence.mhsa_output.size() == data &&
        sequence.tokens.size() == positions * sizeof(int32_t) &&
        sequence.mask.size() == positions) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("a sequence does not have the sizes of ",
                                                   ElementTypeName(set.element_type), " [",
                                                   set.context, ", ", set.d_model, "]"));
  }

  absl::Status Write(const Sequence& sequence) {
    if (writer_ == nullptr) LORSA_RETURN_IF_ERROR(BeginShard());
    LORSA_RETURN_IF_ERROR(writer_->AppendRow("mhsa_input", sequence.mhsa_input));
    LORSA_RETURN_IF_ERROR(writer_->AppendRow("mhsa_output", sequence.mhsa_output));
    LORSA_RETURN_IF_ERROR(writer_->AppendRow("tokens", sequence.tokens));
    LORSA_RETURN_IF_ERROR(writer_->AppendRow("mask", sequence.mask));
    checksums_.push_back(SequenceChecksum(sequence));
    if (static_cast<int64_t>(checksums_.size()) < options_.sequences_per_shard) {
      return absl::OkStatus();
    }
    return FinishShard();
  }

  absl::Status BeginShard() {
    const Manifest& set = options_.description;
    const uint64_t context = static_cast<uint64_t>(set.context);
    const std::vector<uint64_t> row = {context, static_cast<uint64_t>(set.d_model)};
    const DataType type = DataTypeOf(set.element_type);
    LORSA_ASSIGN_OR_RETURN(writer_, Hdf5Writer::Create(ShardPath() + ".tmp"));
    LORSA_RETURN_IF_ERROR(writer_->AddRows("mhsa_input", type, row));
    LORSA_RETURN_IF_ERROR(writer_->AddRows("mhsa_output", type, row));
    LORSA_RETURN_IF_ERROR(writer_->AddRows("tokens", DataType::kInt32, {context}));
    LORSA_RETURN_IF_ERROR(writer_->AddRows("mask", DataType::kUInt8, {context}));
    if (shard_ > 0) return absl::OkStatus();
    return writer_->SetAttribute(kSetAttribute, FormatDescription(set));
  }

  absl::Status FinishShard() {
    const std::string temporary = ShardPath() + ".tmp";
    const auto writer = std::move(writer_);
    LORSA_RETURN_IF_ERROR(writer->Close());                     // 1
    LORSA_RETURN_IF_ERROR(CompareShard(temporary));             // 2
    LORSA_RETURN_IF_ERROR(fs_.SyncFile(temporary));             // 3
    LORSA_RETURN_IF_ERROR(fs_.Rename(temporary, ShardPath()));  // 4
    LORSA_RETURN_IF_ERROR(fs_.SyncDirectory(folder_));          // 5
    checksums_.clear();
    ++shard_;
    return absl::OkStatus();
  }

  absl::Status CompareShard(const std::string& path) const {
    LORSA_ASSIGN_OR_RETURN(const ShardReader::Opened opened, ShardReader::Open(fs_, path));
    bool same = opened.shard->shape().sequences == static_cast<int64_t>(checksums_.size());
    Sequence sequence;
    for (size_t row = 0; same && row < checksums_.size(); ++row) {
      LORSA_RETURN_IF_ERROR(opened.shard->Read(*opened.file, row, sequence));
      same = SequenceChecksum(sequence) == checksums_[row];
    }
    if (same) return absl::OkStatus();
    return DamagedFile(path, "reads back otherwise than it was written; check the disk");
  }

  FileSystem& fs_;
  const std::string folder_;
  const WriterOptions options_;
  absl::Status status_;  // the first error, which ends the writing
  int64_t shard_ = 0;
  std::unique_ptr<Hdf5Writer> writer_;  // of the shard begun, if any
  std::vector<uint64_t> checksums_;     // of its sequences
};

}  // namespace

absl::StatusOr<std::unique_ptr<SetWriter>> SetWriter::Create(FileSystem& fs,
                                                             const std::string& folder,
                                                             const WriterOptions& options) {
  LORSA_RETURN_IF_ERROR(CheckOptions(options));
  LORSA_RETURN_IF_ERROR(fs.CreateDirectories(folder));
  LORSA_RETURN_IF_ERROR(CheckNoSet(fs, folder));
  return std::make_unique<SetWriterImpl>(fs, folder, options);
}

}  // namespace lorsa::store

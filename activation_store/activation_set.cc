#include "activation_store/activation_set.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "activation_store/checksums.h"
#include "activation_store/folder.h"
#include "activation_store/hdf5_library.h"
#include "activation_store/shard_reader.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

constexpr uint64_t kMaxSetChunks = 1 << 24;  // their places are kept in memory, 24 bytes each

// The open files of a set's shards, the least recently used closed first. Thread-safe.
class OpenFiles {
 public:
  OpenFiles(FileSystem& fs, size_t shards) : fs_(fs), entries_(shards) {}

  absl::StatusOr<std::shared_ptr<const ReadableFile>> Get(size_t shard, const std::string& path) {
    {
      const absl::MutexLock lock(&mutex_);
      if (entries_[shard].file != nullptr) return Touch(shard);
    }
    LORSA_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, fs_.OpenForRead(path));
    return Put(shard, std::move(file));
  }

  std::shared_ptr<const ReadableFile> Put(size_t shard, std::unique_ptr<ReadableFile> file) {
    const absl::MutexLock lock(&mutex_);
    if (entries_[shard].file == nullptr) {  // else another thread was faster
      if (open_.size() == kMaxOpenFilesPerSet) CloseOldest();
      entries_[shard].file = std::move(file);
      open_.push_back(shard);
    }
    return Touch(shard);
  }

 private:
  struct Entry {
    std::shared_ptr<const ReadableFile> file;
    uint64_t used = 0;  // when, on clock_
  };

  std::shared_ptr<const ReadableFile> Touch(size_t shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    entries_[shard].used = ++clock_;
    return entries_[shard].file;
  }
  // A reader that still holds the file keeps it open until it is done.
  void CloseOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto used_before = [this](size_t a, size_t b) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return entries_[a].used < entries_[b].used;
    };
    const auto oldest = std::min_element(open_.begin(), open_.end(), used_before);
    entries_[*oldest].file = nullptr;
    open_.erase(oldest);
  }

  FileSystem& fs_;
  absl::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::vector<size_t> open_ ABSL_GUARDED_BY(mutex_);
  uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ActivationSetImpl final : public ActivationSet {
 public:
  ActivationSetImpl(FileSystem& fs, std::string folder, SealedManifest sealed,
                    ChecksumsReader checksums)
      : folder_(std::move(folder)),
        sealed_(std::move(sealed)),
        checksums_(std::move(checksums)),
        files_(fs, sealed_.manifest.shards.size()) {}

  const Manifest& manifest() const override { return sealed_.manifest; }
  const std::string& folder() const override { return folder_; }
  const std::string& manifest_sha256() const override { return sealed_.sha256; }

  absl::Status OpenShards(FileSystem& fs) {
    int64_t first = 0;
    uint64_t chunks = 0;
    for (const ShardRecord& record : manifest().shards) {
      LORSA_ASSIGN_OR_RETURN(ShardReader::Opened opened,
                             OpenShard(fs, folder_, manifest(), record));
      chunks += opened.shard->chunks();
      if (chunks > kMaxSetChunks) {
        return DamagedFile(folder_,
                           "has more chunks than can be kept in memory; store the datasets "
                           "contiguous or in larger chunks");
      }
      files_.Put(shards_.size(), std::move(opened.file));
      shards_.push_back(std::move(opened.shard));
      first_rows_.push_back(first);
      first += record.sequences;
    }
    return absl::OkStatus();
  }

  absl::Status Read(int64_t index, Sequence& out) const override {
    if (index < 0 || index >= manifest().sequences) {
      return absl::OutOfRangeError(
          absl::StrCat("sequence ", index, " of ", folder_, ", which has ", manifest().sequences));
    }
    const auto after = std::upper_bound(first_rows_.begin(), first_rows_.end(), index);
    const size_t number = static_cast<size_t>(after - first_rows_.begin()) - 1;
    const ShardReader& shard = *shards_[number];
    const int64_t row = index - first_rows_[number];
    LORSA_ASSIGN_OR_RETURN(const auto file, files_.Get(number, shard.path()));
    LORSA_RETURN_IF_ERROR(shard.Read(*file, row, out));
    LORSA_ASSIGN_OR_RETURN(const uint64_t expected,
                           checksums_.Get(static_cast<int64_t>(number), row));
    if (SequenceChecksum(out) != expected) {
      return DamagedFile(
          shard.path(),
          absl::StrCat("sequence ", row, " does not match its checksum; restore the file"));
    }
    out.index = index;
    return absl::OkStatus();
  }

 private:
  const std::string folder_;
  const SealedManifest sealed_;
  const ChecksumsReader checksums_;
  std::vector<std::unique_ptr<const ShardReader>> shards_;
  std::vector<int64_t> first_rows_;  // index in the set of each shard's first sequence
  mutable OpenFiles files_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ActivationSet>> ActivationSet::Open(
    FileSystem& fs, const std::string& folder) {
  LORSA_ASSIGN_OR_RETURN(SealedManifest sealed, ReadManifest(fs, folder));
  LORSA_RETURN_IF_ERROR(CheckFileSize(fs, folder, sealed.manifest.checksums));
  LORSA_ASSIGN_OR_RETURN(ChecksumsReader checksums, OpenChecksums(fs, folder, sealed.manifest));
  if (sealed.manifest.attention_weights.has_value()) {
    LORSA_RETURN_IF_ERROR(CheckFileSize(fs, folder, *sealed.manifest.attention_weights));
  }
  auto set =
      std::make_shared<ActivationSetImpl>(fs, folder, std::move(sealed), std::move(checksums));
  LORSA_RETURN_IF_ERROR(set->OpenShards(fs));
  return set;
}

}  // namespace lorsa::store

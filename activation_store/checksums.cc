// Protocol of WriteChecksums:
//   1. write `path`.tmp anew and close it
//   2. reopen it and compare every checksum
//   3. fsync it
//   4. rename it to `path`
//   5. fsync the folder
// A crash before 4 leaves a .tmp, which the next attempt removes.
#include "activation_store/checksums.h"

#ifdef __x86_64__
#include <xxh_x86dispatch.h>  // xxhash.h with the widest vectors that the processor has
#else
#include <xxhash.h>
#endif

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "activation_store/hdf5_library.h"
#include "activation_store/hdf5_writer.h"
#include "activation_store/manifest.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

std::string DatasetName(int64_t shard) {
  return std::string(absl::StripSuffix(ShardFile(shard), ".h5"));
}

absl::Status WriteFile(const std::string& path, const std::vector<std::vector<uint64_t>>& shards) {
  LORSA_ASSIGN_OR_RETURN(auto writer, Hdf5Writer::Create(path));
  for (size_t i = 0; i < shards.size(); ++i) {
    const absl::string_view bytes(reinterpret_cast<const char*>(shards[i].data()),
                                  shards[i].size() * sizeof(uint64_t));
    LORSA_RETURN_IF_ERROR(writer->WriteWhole(DatasetName(static_cast<int64_t>(i)),
                                             DataType::kUInt64, {shards[i].size()}, bytes));
  }
  return writer->Close();
}

absl::Status CompareFile(FileSystem& fs, const std::string& path,
                         const std::vector<std::vector<uint64_t>>& shards) {
  std::vector<int64_t> counts;
  for (const auto& shard : shards) counts.push_back(static_cast<int64_t>(shard.size()));
  LORSA_ASSIGN_OR_RETURN(const ChecksumsReader reader, ChecksumsReader::Open(fs, path, counts));
  for (size_t i = 0; i < shards.size(); ++i) {
    for (size_t row = 0; row < shards[i].size(); ++row) {
      LORSA_ASSIGN_OR_RETURN(const uint64_t checksum, reader.Get(i, row));
      if (checksum != shards[i][row]) {
        return DamagedFile(path, "reads back otherwise than it was written; check the disk");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t SequenceChecksum(const Sequence& sequence) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const std::string* part :
       {&sequence.mhsa_input, &sequence.mhsa_output, &sequence.tokens, &sequence.mask}) {
    XXH3_64bits_update(state.get(), part->data(), part->size());
  }
  return XXH3_64bits_digest(state.get());
}

absl::StatusOr<ChecksumsReader> ChecksumsReader::Open(FileSystem& fs, const std::string& path,
                                                      const std::vector<int64_t>& shard_sequences) {
  Hdf5Request request = {.max_root_entries = shard_sequences.size()};
  for (size_t i = 0; i < shard_sequences.size(); ++i) request.datasets.push_back(DatasetName(i));
  LORSA_ASSIGN_OR_RETURN(Hdf5Contents contents, ReadHdf5Layout(fs, path, request));
  ChecksumsReader reader;
  reader.path_ = path;
  reader.file_ = std::move(contents.file);
  for (size_t i = 0; i < shard_sequences.size(); ++i) {
    DatasetReader dataset(std::move(contents.datasets[request.datasets[i]]));
    const DatasetLayout& layout = dataset.layout();
    if (layout.type != DataType::kUInt64 || layout.dims.size() != 1 ||
        layout.dims[0] != static_cast<uint64_t>(shard_sequences[i])) {
      return DamagedFile(path, absl::StrCat("dataset '", request.datasets[i], "' is not uint64 [",
                                            shard_sequences[i], "]"));
    }
    reader.shards_.push_back(std::move(dataset));
  }
  return reader;
}

absl::StatusOr<uint64_t> ChecksumsReader::Get(int64_t shard, int64_t row) const {
  uint64_t checksum = 0;
  const absl::Span<char> bytes(reinterpret_cast<char*>(&checksum), sizeof(checksum));
  const absl::Status status =
      shards_[static_cast<size_t>(shard)].ReadRow(*file_, static_cast<uint64_t>(row), bytes);
  if (absl::IsDataLoss(status)) return DamagedFile(path_, status.message());
  if (!status.ok()) return status;
  return checksum;
}

absl::Status WriteChecksums(FileSystem& fs, const std::string& path,
                            const std::vector<std::vector<uint64_t>>& shards) {
  const std::string temporary = path + ".tmp";
  if (const absl::Status removed = fs.Remove(temporary); !absl::IsNotFound(removed)) {
    LORSA_RETURN_IF_ERROR(removed);
  }
  absl::Status status = WriteFile(temporary, shards);            // 1
  if (status.ok()) status = CompareFile(fs, temporary, shards);  // 2
  if (status.ok()) status = fs.SyncFile(temporary);              // 3
  if (status.ok()) status = fs.Rename(temporary, path);          // 4
  if (!status.ok()) {
    fs.Remove(temporary).IgnoreError();  // The first error is the one to report.
    return status;
  }
  return fs.SyncDirectory(DirectoryOf(path));  // 5
}

}  // namespace lorsa::store

// checksums.h5: the XXH3-64 of each sequence of a set, a dataset per shard.
#ifndef LORSA_ACTIVATION_STORE_CHECKSUMS_H_
#define LORSA_ACTIVATION_STORE_CHECKSUMS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "activation_store/activation_set.h"
#include "activation_store/dataset_reader.h"
#include "base/file_system.h"

namespace lorsa::store {

// XXH3-64 (seed 0) of mhsa_input, mhsa_output, tokens and mask, one after the other.
uint64_t SequenceChecksum(const Sequence& sequence);

// The file opened for reading; each checksum is read when asked for. Thread-safe.
class ChecksumsReader {
 public:
  // `shard_sequences[i]`: sequences of shard i. DATA_LOSS if the file has others.
  static absl::StatusOr<ChecksumsReader> Open(FileSystem& fs, const std::string& path,
                                              const std::vector<int64_t>& shard_sequences);

  absl::StatusOr<uint64_t> Get(int64_t shard, int64_t row) const;

 private:
  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  std::vector<DatasetReader> shards_;
};

// Writes the file at `path`, replacing none: .tmp, close, reopen and compare, fsync, rename, fsync
// of the folder. On error no file is left.
absl::Status WriteChecksums(FileSystem& fs, const std::string& path,
                            const std::vector<std::vector<uint64_t>>& shards);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_CHECKSUMS_H_

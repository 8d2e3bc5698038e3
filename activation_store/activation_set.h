// A sealed activation set opened for reading, and the pass that seals or verifies a folder.
#ifndef LORSA_ACTIVATION_STORE_ACTIVATION_SET_H_
#define LORSA_ACTIVATION_STORE_ACTIVATION_SET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "activation_store/manifest.h"
#include "activation_store/outlier_targets.h"
#include "base/file_system.h"

namespace lorsa::store {

// The bytes of one sequence as they stand in the shard: little-endian, row-major.
struct Sequence {
  int64_t index = 0;        // in the set
  std::string mhsa_input;   // [context, d_model] elements
  std::string mhsa_output;  // [context, d_model] elements
  std::string tokens;       // int32 [context]
  std::string mask;         // uint8 [context]
};

// Shards of one set that are open at a time. A random order over more shards reopens files, which
// costs little beside a read; descriptors are what a server with many sets runs out of.
inline constexpr size_t kMaxOpenFilesPerSet = 64;

// A sealed set. Opening checks the manifest, every shard's layout and size, not its contents;
// reading checks each sequence's checksum. Thread-safe; reads of contiguous and unfiltered shards
// run in parallel (pread), others one at a time (HDF5 has one global lock).
class ActivationSet {
 public:
  // NOT_FOUND if the folder or a file is missing, FAILED_PRECONDITION if it is not sealed,
  // DATA_LOSS naming file and reason if it is damaged. `fs` outlives the set.
  static absl::StatusOr<std::shared_ptr<const ActivationSet>> Open(FileSystem& fs,
                                                                   const std::string& folder);
  virtual ~ActivationSet() = default;

  virtual const Manifest& manifest() const = 0;
  virtual const std::string& folder() const = 0;
  // sha256 of manifest.json, hex: the identity of the contents.
  virtual const std::string& manifest_sha256() const = 0;

  // Fills `out`, reusing its memory. OUT_OF_RANGE for an index the set does not have, DATA_LOSS
  // naming the shard if the bytes do not match their checksum.
  virtual absl::Status Read(int64_t index, Sequence& out) const = 0;
};

// Called now and then from one thread during a pass over a set; return false to stop the pass with
// CANCELLED.
using ProgressFunction = std::function<bool(int64_t bytes_done, int64_t bytes_total)>;

// Seals a folder of shards: checks them all as VerifySet does, computes what the producer left out
// and writes checksums.h5, then manifest.json. A sealed folder is verified instead. What exists
// and disagrees with the shards is an error, never overwritten. `now` is the creation date written
// if the producer gave none (RFC 3339).
struct SealedSet {
  Manifest manifest;
  OutlierTargets outliers;
};
absl::StatusOr<SealedSet> SealSet(FileSystem& fs, const std::string& folder, const std::string& now,
                                  const ProgressFunction& progress);

struct VerificationReport {
  std::vector<std::string> problems;  // one sentence each, naming the file; at most 100
  int64_t sequences_checked = 0;
  OutlierTargets outliers;  // by the manifest's mean norm
  bool ok() const { return problems.empty(); }
};

// Reads every byte of a sealed set: sha256 of each file, checksum of each sequence, shapes, mask
// values and order, counts, norms, and that no activation is NaN or Inf. Damage is in the report;
// an error is returned only when the pass itself could not run.
absl::StatusOr<VerificationReport> VerifySet(FileSystem& fs, const std::string& folder,
                                             const ProgressFunction& progress);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_ACTIVATION_SET_H_

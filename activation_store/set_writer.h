// Writes a set from C++: tests, conversions and, later, uploads. Python writes its own (h5py).
#ifndef LORSA_ACTIVATION_STORE_SET_WRITER_H_
#define LORSA_ACTIVATION_STORE_SET_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "activation_store/activation_set.h"
#include "activation_store/manifest.h"
#include "base/file_system.h"

namespace lorsa::store {

struct WriterOptions {
  // What the set describes: model, layer, hook_convention, attention, d_model, context,
  // element_type, producer. Counts, norms and checksums are computed.
  Manifest description;
  int64_t sequences_per_shard = 512;
};

// One thread at a time. A shard is written as shard-NNNNN.h5.tmp, closed, reopened and verified,
// fsynced and renamed; Seal writes checksums.h5 and the manifest.
class SetWriter {
 public:
  // ALREADY_EXISTS if the folder holds a set.
  static absl::StatusOr<std::unique_ptr<SetWriter>> Create(FileSystem& fs,
                                                           const std::string& folder,
                                                           const WriterOptions& options);
  virtual ~SetWriter() = default;

  // Sizes must be those of the description; `sequence.index` is ignored.
  virtual absl::Status Append(const Sequence& sequence) = 0;
  // Writes the last shard and seals. Call once, last. `now` as in SealSet.
  virtual absl::StatusOr<Manifest> Seal(const std::string& now) = 0;
};

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_SET_WRITER_H_

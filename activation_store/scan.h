// The pass over the bytes of a shard that sealing and verifying share.
#ifndef LORSA_ACTIVATION_STORE_SCAN_H_
#define LORSA_ACTIVATION_STORE_SCAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "activation_store/activation_set.h"
#include "activation_store/outlier_targets.h"
#include "activation_store/shard_reader.h"
#include "base/file_system.h"

namespace lorsa::store {

// Tells a ProgressFunction how far a pass has come, not more often than every few MiB. The shards
// are read twice (once for sha256), so the total is twice their size.
class ProgressMeter {
 public:
  ProgressMeter(const ProgressFunction& progress, int64_t bytes_total)
      : progress_(progress), total_(bytes_total) {}
  // CANCELLED if the function says stop.
  absl::Status Advance(int64_t bytes);

 private:
  const ProgressFunction& progress_;
  const int64_t total_;
  int64_t done_ = 0;
  int64_t told_ = 0;
};

// True for an error that is the data's fault; false for one of the machine (no memory, no
// permission, an I/O error), after which nothing can be said about the data.
bool IsDamage(const absl::Status& status);

// Called with each piece of damage; what it returns, if an error, ends the scan.
using DamageFunction = std::function<absl::Status(const absl::Status& damage)>;

// Of one shard, over the sequences in which no damage was found.
struct ShardFacts {
  std::string sha256;
  int64_t bytes = 0;
  std::vector<uint64_t> checksums;  // one for each sequence; 0 where damaged
  int64_t unmasked_tokens = 0;
  double input_norm_sum = 0;
  double output_norm_sum = 0;
};

// `first` is the number in the set of the shard's first sequence; `norms` gets those of the
// targets.
absl::StatusOr<ShardFacts> ScanShard(FileSystem& fs, const ShardReader::Opened& opened,
                                     int64_t first, ProgressMeter& progress,
                                     const DamageFunction& on_damage, LargestNorms& norms);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_SCAN_H_

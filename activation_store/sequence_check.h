// What sealing and verifying compute from one sequence, and what they refuse in it.
#ifndef LORSA_ACTIVATION_STORE_SEQUENCE_CHECK_H_
#define LORSA_ACTIVATION_STORE_SEQUENCE_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "activation_store/activation_set.h"
#include "activation_store/shard_reader.h"

namespace lorsa::store {

struct SequenceFacts {
  uint64_t checksum = 0;
  int64_t unmasked_tokens = 0;
  double input_norm_sum = 0;  // of Euclidean norms over unmasked tokens
  double output_norm_sum = 0;
  std::vector<double> output_norms;  // [context]; 0 where masked
};

// A leading run of this many masked positions with one and the same token, before a target, is
// taken for padding on the left: BOS and special tokens differ from each other.
inline constexpr int64_t kLeftPaddingRun = 4;

// DATA_LOSS naming dataset and position for NaN or Inf anywhere, a mask value other than 0 and 1,
// or padding on the left. `sequence` has the sizes of `shape`.
absl::StatusOr<SequenceFacts> ExamineSequence(const Sequence& sequence, const ShardShape& shape);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_SEQUENCE_CHECK_H_

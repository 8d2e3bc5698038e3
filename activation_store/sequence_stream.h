// Reads ahead through a set on several threads, within a bound on memory, and hands the sequences
// out in order.
#ifndef LORSA_ACTIVATION_STORE_SEQUENCE_STREAM_H_
#define LORSA_ACTIVATION_STORE_SEQUENCE_STREAM_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "activation_store/activation_set.h"

namespace lorsa::store {

enum class Subset {
  kTraining,  // keyed order, epoch after epoch, without end
  kHeldOut,   // stored order, once
};

struct StreamOptions {
  Subset subset = Subset::kTraining;
  uint64_t seed = 0;                      // of the order; unused for kHeldOut
  int64_t cursor = 0;                     // sequences already consumed
  int64_t limit = 0;                      // sequences to hand out; 0 = to the end, or without end
  int reader_threads = 2;                 // 1 to 16
  int64_t max_buffered_bytes = 64 << 20;  // at least one sequence is buffered whatever its size
};

// One consumer thread. The same options but for threads and buffer give the same bytes.
class SequenceStream {
 public:
  // INVALID_ARGUMENT for options out of range, FAILED_PRECONDITION if the set has no training
  // sequence.
  static absl::StatusOr<std::unique_ptr<SequenceStream>> Open(
      std::shared_ptr<const ActivationSet> set, const StreamOptions& options);
  virtual ~SequenceStream() = default;  // stops and joins the readers

  // The next sequence, or OUT_OF_RANGE after the last. Any other error is that of the read and
  // comes again on each later call. `*out`'s memory is recycled from the previous call.
  virtual absl::Status Next(Sequence& out) = 0;

  // Cursor of the sequence that Next will hand out.
  virtual int64_t cursor() const = 0;

  // Makes a blocked or later Next return CANCELLED. Any thread.
  virtual void Cancel() = 0;
};

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_SEQUENCE_STREAM_H_

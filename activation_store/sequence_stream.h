// Reads ahead through a set on threads of a pool, within a bound on memory, and hands the sequences
// out in order.
#ifndef LORSA_ACTIVATION_STORE_SEQUENCE_STREAM_H_
#define LORSA_ACTIVATION_STORE_SEQUENCE_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "activation_store/activation_set.h"
#include "activation_store/reader_pool.h"

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
  int reader_threads = 2;                 // of the pool that read at once, 1 to 16
  int64_t max_buffered_bytes = 64 << 20;  // at least one sequence is buffered whatever its size
};

// One consumer thread. The same options but for threads and buffer give the same bytes.
class SequenceStream {
 public:
  // `pool` outlives the stream. `wake` runs on a thread of the pool and may outlive the stream by
  // the reads under way. INVALID_ARGUMENT for options out of range, FAILED_PRECONDITION if the set
  // has no training sequence.
  static absl::StatusOr<std::unique_ptr<SequenceStream>> Open(
      std::shared_ptr<const ActivationSet> set, ReaderPool& pool, const StreamOptions& options,
      std::function<void()> wake = nullptr);
  // Cancels; does not wait for reads under way.
  virtual ~SequenceStream() = default;

  // Never blocks. True: `out` is the next sequence; its memory was recycled from the previous call.
  // False: the next sequence is not read yet, and `wake` is called once it is. OUT_OF_RANGE after
  // the last. Any other error is that of the read and comes again on each later call.
  virtual absl::StatusOr<bool> TryNext(Sequence& out) = 0;

  // The same, but waits for the sequence.
  virtual absl::Status Next(Sequence& out) = 0;

  // Cursor of the sequence that comes next.
  virtual int64_t cursor() const = 0;

  // Makes a blocked or later call return CANCELLED, and ends the reading ahead. Any thread.
  virtual void Cancel() = 0;
};

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_SEQUENCE_STREAM_H_

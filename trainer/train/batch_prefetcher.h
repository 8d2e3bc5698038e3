// Training batches made ready while the step before is computed.
#ifndef LORSA_TRAINER_TRAIN_BATCH_PREFETCHER_H_
#define LORSA_TRAINER_TRAIN_BATCH_PREFETCHER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/monotonic_clock.h"
#include "trainer/train/batch_reader.h"

namespace lorsa::trainer {

// A thread of its own reads batches of `batch_size` sequences from `source`, keeps at most
// kPrefetchedBatches ready, and ends at the first error or short batch. One consumer.
class BatchPrefetcher {
 public:
  static constexpr int kPrefetchedBatches = 2;

  // `config` outlives it.
  BatchPrefetcher(const TrainConfig& config, std::unique_ptr<SequenceSource> source,
                  int64_t batch_size, at::Device device);
  // Cancels a read that is under way.
  ~BatchPrefetcher();

  // The next batch; blocks until it is there or `stop`, asked about five times a second, says so:
  // then CANCELLED. An error of the reader comes in its place, and again with every further call.
  absl::StatusOr<LoadedBatch> Next(const std::function<bool()>& stop);

 private:
  void Run();

  const int64_t batch_size_;
  SequenceSource& source_;  // of reader_
  BatchReader reader_;      // of thread_ alone

  absl::Mutex mutex_;
  std::deque<absl::StatusOr<LoadedBatch>> ready_ ABSL_GUARDED_BY(mutex_);
  TimedCondition arrived_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_TRAIN_BATCH_PREFETCHER_H_

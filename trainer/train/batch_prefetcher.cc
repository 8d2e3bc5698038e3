#include "trainer/train/batch_prefetcher.h"

#include <utility>

#include "trainer/lorsa/torch_guard.h"

namespace lorsa::trainer {
namespace {

constexpr absl::Duration kStopPollInterval = absl::Milliseconds(200);

}  // namespace

BatchPrefetcher::BatchPrefetcher(const TrainConfig& config, std::unique_ptr<SequenceSource> source,
                                 int64_t batch_size, at::Device device)
    : batch_size_(batch_size),
      source_(*source),
      reader_(config, std::move(source), device),
      thread_([this] { Run(); }) {}

BatchPrefetcher::~BatchPrefetcher() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  source_.Cancel();
  thread_.join();
}

void BatchPrefetcher::Run() {
  while (true) {
    absl::StatusOr<LoadedBatch> batch = GuardTorch([this] { return reader_.Next(batch_size_); });
    const bool last = !batch.ok() || static_cast<int64_t>(batch->sequences.size()) < batch_size_;
    absl::MutexLock lock(&mutex_);
    const auto room = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return stopping_ || ready_.size() < kPrefetchedBatches;
    };
    mutex_.Await(absl::Condition(&room));
    if (stopping_) return;
    ready_.push_back(std::move(batch));
    arrived_.NotifyAll();
    if (last) return;
  }
}

absl::StatusOr<LoadedBatch> BatchPrefetcher::Next(const std::function<bool()>& stop) {
  absl::MutexLock lock(&mutex_);
  const auto any = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !ready_.empty(); };
  while (!arrived_.AwaitFor(mutex_, kStopPollInterval, any)) {
    if (stop()) return absl::CancelledError("A stop was requested while waiting for activations.");
  }
  if (!ready_.front().ok()) return ready_.front().status();
  absl::StatusOr<LoadedBatch> batch = std::move(ready_.front());
  ready_.pop_front();
  return batch;
}

}  // namespace lorsa::trainer

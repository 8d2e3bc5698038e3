// A ring of slots between the readers and the consumer. Reader threads claim cursors in order and
// fill slot cursor % slots; the consumer takes them in order and so frees the slot for the cursor
// one ring later. The consumer never passes a failed read, so what follows it is never delivered.
#include "activation_store/sequence_stream.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "activation_store/sequence_order.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

constexpr int kMaxReaderThreads = 16;
constexpr int64_t kMaxSlots = 4096;
constexpr int64_t kMaxCursor = int64_t{1} << 62;

int64_t SequenceBytes(const Manifest& manifest) {
  const int64_t elements = manifest.context * manifest.d_model;
  const int64_t position_bytes = sizeof(int32_t) + sizeof(uint8_t);  // token and mask
  return 2 * elements * ElementSize(manifest.element_type) + manifest.context * position_bytes;
}

// Index in the set of each cursor, and where the cursors end.
class Plan {
 public:
  Plan(const Manifest& manifest, const StreamOptions& options)
      : held_out_(options.subset == Subset::kHeldOut),
        training_sequences_(manifest.training_sequences()),
        order_(std::max<int64_t>(1, training_sequences_), options.seed),
        end_(held_out_ ? manifest.held_out_sequences() : kMaxCursor) {
    // Not by the sum of both, which may overflow.
    if (options.limit > 0 && options.limit < end_ - options.cursor) {
      end_ = options.cursor + options.limit;
    }
  }

  int64_t Index(int64_t cursor) const {
    return held_out_ ? training_sequences_ + cursor : order_.At(cursor);
  }
  int64_t end() const { return end_; }

 private:
  bool held_out_;
  int64_t training_sequences_;
  SequenceOrder order_;
  int64_t end_;
};

class SequenceStreamImpl final : public SequenceStream {
 public:
  SequenceStreamImpl(std::shared_ptr<const ActivationSet> set, const StreamOptions& options)
      : set_(std::move(set)),
        plan_(set_->manifest(), options),
        slots_(static_cast<size_t>(std::clamp<int64_t>(
            options.max_buffered_bytes / SequenceBytes(set_->manifest()), 1, kMaxSlots))),
        next_claim_(options.cursor),
        cursor_(options.cursor) {
    for (int i = 0; i < options.reader_threads; ++i) {
      readers_.emplace_back([this] { ReadAhead(); });
    }
  }

  ~SequenceStreamImpl() override {
    Cancel();
    for (std::thread& reader : readers_) reader.join();
  }

  absl::Status Next(Sequence& out) override {
    const absl::MutexLock lock(&mutex_);
    while (!CanHandOut()) filled_.Wait(&mutex_);
    if (cancelled_) return absl::CancelledError("the stream was cancelled");
    if (cursor_ >= plan_.end()) {
      return absl::OutOfRangeError("the stream has handed out its last sequence");
    }
    Slot& slot = SlotOf(cursor_);
    if (!slot.status.ok()) return slot.status;  // It stays: every later call finds it here.
    std::swap(out, slot.sequence);
    slot.filled = false;
    ++cursor_;
    freed_.Signal();
    return absl::OkStatus();
  }

  int64_t cursor() const override {
    const absl::MutexLock lock(&mutex_);
    return cursor_;
  }

  void Cancel() override {
    const absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    filled_.SignalAll();
    freed_.SignalAll();
  }

 private:
  struct Slot {
    bool filled = false;  // false: empty, or being filled by the reader that claimed it
    absl::Status status;
    Sequence sequence;  // touched without the lock, only by that reader
  };

  Slot& SlotOf(int64_t cursor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return slots_[static_cast<size_t>(cursor) % slots_.size()];
  }
  bool CanHandOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return cancelled_ || cursor_ >= plan_.end() || SlotOf(cursor_).filled;
  }
  bool CanClaim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return cancelled_ || next_claim_ >= plan_.end() ||
           next_claim_ - cursor_ < static_cast<int64_t>(slots_.size());
  }

  // The next cursor to read, once a slot is free for it; none when the reader is to end.
  std::optional<int64_t> Claim(Slot*& slot) {
    const absl::MutexLock lock(&mutex_);
    while (!CanClaim()) freed_.Wait(&mutex_);
    if (cancelled_ || next_claim_ >= plan_.end()) return std::nullopt;
    slot = &SlotOf(next_claim_);
    return next_claim_++;
  }

  void ReadAhead() {
    Slot* slot = nullptr;
    while (const std::optional<int64_t> cursor = Claim(slot)) {
      absl::Status status = set_->Read(plan_.Index(*cursor), slot->sequence);
      const absl::MutexLock lock(&mutex_);
      slot->status = std::move(status);
      slot->filled = true;
      filled_.Signal();
    }
  }

  const std::shared_ptr<const ActivationSet> set_;
  const Plan plan_;
  mutable absl::Mutex mutex_;
  absl::CondVar filled_;  // for the consumer
  absl::CondVar freed_;   // for the readers: a slot, one of them takes it
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  int64_t next_claim_ ABSL_GUARDED_BY(mutex_);
  int64_t cursor_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> readers_;  // last: they use all of the above
};

absl::Status CheckOptions(const Manifest& manifest, const StreamOptions& options) {
  const bool held_out = options.subset == Subset::kHeldOut;
  const int64_t max_cursor = held_out ? manifest.held_out_sequences() : kMaxCursor;
  if (options.cursor < 0 || options.cursor > max_cursor) {
    return absl::InvalidArgumentError(
        absl::StrCat("cursor ", options.cursor, " is not from 0 to ", max_cursor));
  }
  if (options.limit < 0 || options.limit > kMaxCursor) {
    return absl::InvalidArgumentError(
        absl::StrCat("limit ", options.limit, " is not from 0 to ", kMaxCursor));
  }
  if (options.reader_threads < 1 || options.reader_threads > kMaxReaderThreads) {
    return absl::InvalidArgumentError(absl::StrCat("reader_threads ", options.reader_threads,
                                                   " is not from 1 to ", kMaxReaderThreads));
  }
  if (!held_out && manifest.training_sequences() < 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("all ", manifest.sequences,
                     " sequences of the set are held out; training needs a larger set"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SequenceStream>> SequenceStream::Open(
    std::shared_ptr<const ActivationSet> set, const StreamOptions& options) {
  LORSA_RETURN_IF_ERROR(CheckOptions(set->manifest(), options));
  return std::make_unique<SequenceStreamImpl>(std::move(set), options);
}

}  // namespace lorsa::store

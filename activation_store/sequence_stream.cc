// A ring of slots between the readers and the consumer. Readers claim cursors in order and fill
// slot cursor % slots; the consumer takes them in order and so frees the slot for the cursor one
// ring later. The consumer never passes a failed read, so what follows it is never delivered.
//
// A reader is a task of the pool: it reads for a turn of about 1 MiB, then queues again behind the
// other streams. A stream whose ring is full has no task, so one that nobody takes from costs no
// thread.
#include "activation_store/sequence_stream.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "activation_store/sequence_order.h"
#include "base/exception_wall.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

constexpr int kMaxReaderThreads = 16;
constexpr int64_t kTurnBytes = 1 << 20;
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

// What the consumer and the readers share; lives as long as one of them.
class Ring final : public std::enable_shared_from_this<Ring> {
 public:
  Ring(std::shared_ptr<const ActivationSet> set, ReaderPool& pool, const StreamOptions& options,
       std::function<void()> wake)
      : set_(std::move(set)),
        pool_(pool),
        plan_(set_->manifest(), options),
        wake_(std::move(wake)),
        max_readers_(options.reader_threads),
        turn_(std::max<int64_t>(1, kTurnBytes / SequenceBytes(set_->manifest()))),
        slots_(static_cast<size_t>(std::clamp<int64_t>(
            options.max_buffered_bytes / SequenceBytes(set_->manifest()), 1, kMaxSlots))),
        next_claim_(options.cursor),
        cursor_(options.cursor) {}

  void Start() {
    const absl::MutexLock lock(&mutex_);
    for (int i = 0; i < max_readers_; ++i) AddReader();
  }

  absl::StatusOr<bool> TryNext(Sequence& out) {
    const absl::MutexLock lock(&mutex_);
    consumer_waits_ = !IsSettled();
    if (consumer_waits_) return false;
    LORSA_RETURN_IF_ERROR(Take(out));
    return true;
  }

  absl::Status Next(Sequence& out) {
    const absl::MutexLock lock(&mutex_);
    while (!IsSettled()) filled_.Wait(&mutex_);
    return Take(out);
  }

  int64_t cursor() const {
    const absl::MutexLock lock(&mutex_);
    return cursor_;
  }

  void Cancel() {
    const absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    filled_.SignalAll();
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
  // The next call of the consumer need not wait.
  bool IsSettled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return cancelled_ || cursor_ >= plan_.end() || SlotOf(cursor_).filled;
  }
  bool CanClaim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !cancelled_ && next_claim_ < plan_.end() &&
           next_claim_ - cursor_ < static_cast<int64_t>(slots_.size());
  }

  absl::Status Take(Sequence& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (cancelled_) return absl::CancelledError("the stream was cancelled");
    if (cursor_ >= plan_.end()) {
      return absl::OutOfRangeError("the stream has handed out its last sequence");
    }
    Slot& slot = SlotOf(cursor_);
    if (!slot.status.ok()) return slot.status;  // It stays: every later call finds it here.
    std::swap(out, slot.sequence);
    slot.filled = false;
    ++cursor_;
    AddReader();
    return absl::OkStatus();
  }

  // One more, if it would find something to read.
  void AddReader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (readers_ == max_readers_ || !CanClaim()) return;
    ++readers_;
    pool_.Schedule([ring = shared_from_this()] { ring->ReadForATurn(); });
  }

  // A cursor to read, and its slot; none when the reader is to end.
  std::optional<int64_t> Claim(Slot*& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!CanClaim()) return std::nullopt;
    slot = &SlotOf(next_claim_);
    return next_claim_++;
  }

  void ReadForATurn() {
    for (int64_t i = 0; i < turn_; ++i) {
      if (!ReadOne()) break;
    }
    const absl::MutexLock lock(&mutex_);
    --readers_;
    AddReader();
  }

  // False if there is nothing to read.
  bool ReadOne() {
    Slot* slot = nullptr;
    std::optional<int64_t> cursor;
    {
      const absl::MutexLock lock(&mutex_);
      cursor = Claim(slot);
    }
    if (!cursor.has_value()) return false;
    absl::Status status =
        CatchExceptions([&] { return set_->Read(plan_.Index(*cursor), slot->sequence); });
    if (Fill(*slot, std::move(status))) wake_();
    return true;
  }

  // True if the consumer is to be woken.
  bool Fill(Slot& slot, absl::Status status) {
    const absl::MutexLock lock(&mutex_);
    slot.status = std::move(status);
    slot.filled = true;
    filled_.Signal();
    if (!consumer_waits_ || !IsSettled()) return false;
    consumer_waits_ = false;
    return wake_ != nullptr;
  }

  const std::shared_ptr<const ActivationSet> set_;
  ReaderPool& pool_;
  const Plan plan_;
  const std::function<void()> wake_;
  const int max_readers_;
  const int64_t turn_;  // sequences
  mutable absl::Mutex mutex_;
  absl::CondVar filled_;  // for Next
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  int64_t next_claim_ ABSL_GUARDED_BY(mutex_);
  int64_t cursor_ ABSL_GUARDED_BY(mutex_);
  int readers_ ABSL_GUARDED_BY(mutex_) = 0;              // tasks queued or running
  bool consumer_waits_ ABSL_GUARDED_BY(mutex_) = false;  // TryNext returned false
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

class SequenceStreamImpl final : public SequenceStream {
 public:
  explicit SequenceStreamImpl(std::shared_ptr<Ring> ring) : ring_(std::move(ring)) {
    ring_->Start();
  }
  ~SequenceStreamImpl() override { ring_->Cancel(); }

  absl::StatusOr<bool> TryNext(Sequence& out) override { return ring_->TryNext(out); }
  absl::Status Next(Sequence& out) override { return ring_->Next(out); }
  int64_t cursor() const override { return ring_->cursor(); }
  void Cancel() override { ring_->Cancel(); }

 private:
  const std::shared_ptr<Ring> ring_;
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
    std::shared_ptr<const ActivationSet> set, ReaderPool& pool, const StreamOptions& options,
    std::function<void()> wake) {
  LORSA_RETURN_IF_ERROR(CheckOptions(set->manifest(), options));
  return std::make_unique<SequenceStreamImpl>(
      std::make_shared<Ring>(std::move(set), pool, options, std::move(wake)));
}

}  // namespace lorsa::store

#include "activation_store/sequence_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "activation_store/sequence_order.h"
#include "activation_store/test_sets.h"

namespace lorsa::store {
namespace {

// A set that exists only in memory. `failing` indices give DATA_LOSS; early ones are slow, so that
// readers overtake each other.
class FakeSet final : public ActivationSet {
 public:
  explicit FakeSet(int64_t sequences) {
    manifest_ = TestDescription(ElementType::kFloat16, 4, 4);
    manifest_.sequences = sequences;
  }
  const Manifest& manifest() const override { return manifest_; }
  const std::string& folder() const override { return name_; }
  const std::string& manifest_sha256() const override { return name_; }
  absl::Status Read(int64_t index, Sequence& out) const override {
    ++reads;
    std::this_thread::sleep_for(std::chrono::microseconds(index % 5 == 0 ? 300 : 0));
    if (index == failing) return absl::DataLossError(absl::StrCat("bad ", index));
    if (index == throwing) throw std::bad_alloc();
    if (gate != nullptr) gate->WaitForNotification();
    out = TestSequence(manifest_, index);
    return absl::OkStatus();
  }

  int64_t failing = -1;
  int64_t throwing = -1;                     // std::bad_alloc
  std::shared_ptr<absl::Notification> gate;  // every read waits for it
  mutable std::atomic<int64_t> reads = 0;

 private:
  Manifest manifest_;
  const std::string name_ = "fake";
};

constexpr int64_t kSequences = 178;  // 50 for training, 128 held out

constexpr int kPoolThreads = 4;

ReaderPool& Pool() {
  static const std::unique_ptr<ReaderPool> pool = ReaderPool::Create(kPoolThreads).value();
  return *pool;
}

absl::StatusOr<std::unique_ptr<SequenceStream>> OpenStream(const std::shared_ptr<FakeSet>& set,
                                                           const StreamOptions& options,
                                                           std::function<void()> wake = nullptr) {
  return SequenceStream::Open(set, Pool(), options, std::move(wake));
}

class StreamTest : public testing::TestWithParam<std::tuple<int, int64_t>> {};

TEST_P(StreamTest, ThreadsAndBufferNeverChangeTheBytes) {
  const auto [threads, buffer] = GetParam();
  const auto set = std::make_shared<FakeSet>(kSequences);
  const SequenceOrder order(50, 9);
  for (int64_t start : {0, 1, 49, 50, 123}) {
    auto stream = OpenStream(set, {.seed = 9,
                                   .cursor = start,
                                   .limit = 70,
                                   .reader_threads = threads,
                                   .max_buffered_bytes = buffer});
    ASSERT_TRUE(stream.ok()) << stream.status();
    Sequence sequence;
    for (int64_t cursor = start; cursor < start + 70; ++cursor) {
      EXPECT_EQ((*stream)->cursor(), cursor);
      ASSERT_EQ((*stream)->Next(sequence), absl::OkStatus());
      ASSERT_EQ(sequence.index, order.At(cursor));
      ASSERT_TRUE(SameBytes(sequence, TestSequence(set->manifest(), sequence.index)));
    }
    EXPECT_TRUE(absl::IsOutOfRange((*stream)->Next(sequence)));
    EXPECT_TRUE(absl::IsOutOfRange((*stream)->Next(sequence)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, StreamTest,
                         testing::Combine(testing::Values(1, 2, 3, 8),
                                          testing::Values<int64_t>(0, 200, 1000, 1 << 20)));

TEST(SequenceStreamTest, HeldOutSequencesComeOnceInStoredOrder) {
  const auto set = std::make_shared<FakeSet>(kSequences);
  auto stream = OpenStream(set, {.subset = Subset::kHeldOut, .cursor = 3, .reader_threads = 4});
  ASSERT_TRUE(stream.ok());
  Sequence sequence;
  for (int64_t i = 3; i < 128; ++i) {
    ASSERT_EQ((*stream)->Next(sequence), absl::OkStatus());
    EXPECT_EQ(sequence.index, 50 + i);
  }
  EXPECT_TRUE(absl::IsOutOfRange((*stream)->Next(sequence)));
  auto empty = OpenStream(set, {.subset = Subset::kHeldOut, .cursor = 128});
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(absl::IsOutOfRange((*empty)->Next(sequence)));
}

TEST(SequenceStreamTest, AnErrorComesInItsPlaceAndStays) {
  const SequenceOrder order(50, 0);
  for (int threads : {1, 4}) {
    for (int64_t bad : {0, 7, 30}) {
      const auto set = std::make_shared<FakeSet>(kSequences);
      set->failing = order.At(bad);
      auto stream = OpenStream(set, {.reader_threads = threads});
      ASSERT_TRUE(stream.ok());
      Sequence sequence;
      for (int64_t i = 0; i < bad; ++i) ASSERT_EQ((*stream)->Next(sequence), absl::OkStatus());
      for (int again = 0; again < 3; ++again) {
        EXPECT_EQ((*stream)->Next(sequence),
                  absl::DataLossError(absl::StrCat("bad ", set->failing)));
        EXPECT_EQ((*stream)->cursor(), bad);
      }
    }
  }
}

TEST(SequenceStreamTest, ReadersStopAtTheBoundOnMemory) {
  const auto set = std::make_shared<FakeSet>(kSequences);
  const int64_t bytes = 2 * 4 * 4 * 2 + 4 * 5;
  auto stream = OpenStream(set, {.reader_threads = 8, .max_buffered_bytes = 5 * bytes + 1});
  ASSERT_TRUE(stream.ok());
  Sequence sequence;
  for (int64_t taken = 1; taken <= 20; ++taken) {
    ASSERT_EQ((*stream)->Next(sequence), absl::OkStatus());
    EXPECT_LE(set->reads, taken + 5);
  }
}

TEST(SequenceStreamTest, CancelWakesAWaitingConsumerAndStays) {
  const auto set = std::make_shared<FakeSet>(kSequences);
  auto stream = OpenStream(set, {});
  ASSERT_TRUE(stream.ok());
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    (*stream)->Cancel();
  });
  Sequence sequence;
  absl::Status status;
  while (status.ok()) status = (*stream)->Next(sequence);  // The training order has no end.
  canceller.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_TRUE(absl::IsCancelled((*stream)->Next(sequence)));
}

TEST(SequenceStreamTest, TryNextReturnsAtOnceAndWakesWhenTheSequenceIsRead) {
  const auto set = std::make_shared<FakeSet>(kSequences);
  const auto gate = std::make_shared<absl::Notification>();
  const auto woken = std::make_shared<absl::Notification>();
  set->gate = gate;
  auto stream = OpenStream(set, {}, [woken] { woken->Notify(); });  // Aborts the second time.
  ASSERT_TRUE(stream.ok());
  Sequence sequence;
  EXPECT_EQ((*stream)->TryNext(sequence).value(), false);
  EXPECT_FALSE(woken->HasBeenNotified());
  gate->Notify();
  woken->WaitForNotification();
  EXPECT_EQ((*stream)->TryNext(sequence).value(), true);
  EXPECT_EQ(sequence.index, SequenceOrder(50, 0).At(0));
  EXPECT_EQ((*stream)->cursor(), 1);
}

// Each of these streams had 16 threads of its own, and std::thread's exception ended the process.
TEST(SequenceStreamTest, StreamsThatNobodyReadsTakeNoThread) {
  std::vector<std::unique_ptr<SequenceStream>> stalled;
  const auto set = std::make_shared<FakeSet>(kSequences);
  Pool();
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto before = threads();
  for (int i = 0; i < 200; ++i) {
    stalled.push_back(*OpenStream(set, {.reader_threads = 16, .max_buffered_bytes = 1000}));
  }
  EXPECT_EQ(threads(), before);
  auto stream = OpenStream(set, {.limit = 100});
  Sequence sequence;
  for (int i = 0; i < 100; ++i) ASSERT_EQ((*stream)->Next(sequence), absl::OkStatus());
}

TEST(SequenceStreamTest, AReadThatRunsOutOfMemoryIsAnError) {
  const auto set = std::make_shared<FakeSet>(kSequences);
  set->throwing = SequenceOrder(50, 0).At(3);
  auto stream = OpenStream(set, {});
  Sequence sequence;
  for (int i = 0; i < 3; ++i) ASSERT_EQ((*stream)->Next(sequence), absl::OkStatus());
  EXPECT_TRUE(absl::IsResourceExhausted((*stream)->Next(sequence)));
}

TEST(SequenceStreamTest, OptionsOutOfRangeAreRefused) {
  const auto set = std::make_shared<FakeSet>(kSequences);
  const auto refused = [&](const StreamOptions& options) {
    return absl::IsInvalidArgument(OpenStream(set, options).status());
  };
  EXPECT_TRUE(refused({.cursor = -1}));
  EXPECT_TRUE(refused({.limit = -1}));
  EXPECT_TRUE(refused({.reader_threads = 0}));
  EXPECT_TRUE(refused({.reader_threads = 17}));
  EXPECT_TRUE(refused({.subset = Subset::kHeldOut, .cursor = 129}));
  EXPECT_TRUE(absl::IsFailedPrecondition(OpenStream(std::make_shared<FakeSet>(128), {}).status()));
}

// Their sum is beyond int64.
TEST(SequenceStreamTest, ACursorAndALimitAtTheirBoundsEndTheStream) {
  auto stream = OpenStream(std::make_shared<FakeSet>(kSequences),
                           {.cursor = int64_t{1} << 62, .limit = int64_t{1} << 62});
  ASSERT_TRUE(stream.ok()) << stream.status();
  Sequence sequence;
  EXPECT_TRUE(absl::IsOutOfRange((*stream)->Next(sequence)));
}

TEST(SequenceStreamTest, ARealSetStreamsTheSameWithAnyNumberOfThreads) {
  PosixFileSystem fs;
  const std::string folder = TestFolder(fs);
  const Manifest manifest =
      WriteTestSet(fs, folder + "/set", TestDescription(ElementType::kBFloat16, 8, 16), 160, 50);
  auto set = ActivationSet::Open(fs, folder + "/set");
  ASSERT_TRUE(set.ok()) << set.status();
  for (int threads : {1, 2, 8}) {
    auto stream =
        SequenceStream::Open(*set, Pool(), {.seed = 4, .limit = 64, .reader_threads = threads});
    ASSERT_TRUE(stream.ok());
    Sequence sequence;
    for (int64_t cursor = 0; cursor < 64; ++cursor) {
      ASSERT_EQ((*stream)->Next(sequence), absl::OkStatus());
      ASSERT_TRUE(SameBytes(sequence, TestSequence(manifest, SequenceOrder(32, 4).At(cursor))));
    }
  }
}

}  // namespace
}  // namespace lorsa::store

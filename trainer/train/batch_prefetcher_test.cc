#include "trainer/train/batch_prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "base/scratch_folder.h"
#include "trainer/train/testing/fake_host.h"

namespace lorsa::trainer {
namespace {

bool Never() { return false; }

class BatchPrefetcherTest : public testing::Test {
 protected:
  // Counts what is read of `source` and ends it with `error` after `limit` sequences.
  class CountingSource final : public SequenceSource {
   public:
    CountingSource(std::unique_ptr<SequenceSource> source, std::atomic<int>& reads, int limit,
                   absl::Status error)
        : source_(std::move(source)), reads_(reads), limit_(limit), error_(std::move(error)) {}
    absl::Status Next(store::Sequence& out) override {
      if (reads_ == limit_) return error_;
      ++reads_;
      return source_->Next(out);
    }
    void Cancel() override { source_->Cancel(); }

   private:
    std::unique_ptr<SequenceSource> source_;
    std::atomic<int>& reads_;
    const int limit_;
    const absl::Status error_;
  };

  // Gives nothing until it is cancelled.
  class StuckSource final : public SequenceSource {
   public:
    absl::Status Next(store::Sequence&) override {
      cancelled_.WaitForNotification();
      return absl::CancelledError("cancelled");
    }
    void Cancel() override { cancelled_.Notify(); }

   private:
    absl::Notification cancelled_;
  };

  BatchPrefetcher Open(int limit = 1 << 20, absl::Status error = absl::InternalError("broken")) {
    return {config_, std::make_unique<CountingSource>(*host_.OpenTraining(0), reads_, limit, error),
            config_.sequences_per_step, at::kCPU};
  }

  SyntheticSet set_ = MakeSyntheticSet(160);
  TrainConfig config_ = SyntheticConfig(set_);  // 4 sequences a step
  const ScratchFolder scratch_;
  FakeHost host_{set_, 0, scratch_.path()};
  std::atomic<int> reads_ = 0;
};

TEST_F(BatchPrefetcherTest, BatchesComeInOrderAndTheSameAsFromTheReader) {
  BatchReader reader(config_, *host_.OpenTraining(0), at::kCPU);
  BatchPrefetcher prefetcher = Open();
  for (int i = 0; i < 10; ++i) {
    const auto expected = reader.Next(4);
    const auto batch = prefetcher.Next(&Never);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->sequences, expected->sequences);
    EXPECT_EQ(batch->targets, 20);
    EXPECT_TRUE(batch->batch.x.equal(expected->batch.x));
    EXPECT_TRUE(batch->batch.y.equal(expected->batch.y));
  }
}

TEST_F(BatchPrefetcherTest, NoMoreThanTwoBatchesWaitBesideTheOneInTheMaking) {
  BatchPrefetcher prefetcher = Open();
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_EQ(reads_, 12);
  ASSERT_TRUE(prefetcher.Next(&Never).ok());
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_EQ(reads_, 16);
}

TEST_F(BatchPrefetcherTest, AnErrorComesAfterTheBatchesBeforeItAndStays) {
  BatchPrefetcher prefetcher = Open(/*limit=*/6);
  EXPECT_TRUE(prefetcher.Next(&Never).ok());
  EXPECT_EQ(prefetcher.Next(&Never).status().message(), "broken");
  EXPECT_EQ(prefetcher.Next(&Never).status().message(), "broken");
}

TEST_F(BatchPrefetcherTest, AShortBatchIsTheLast) {
  BatchPrefetcher prefetcher = Open(/*limit=*/6, absl::OutOfRangeError("the end"));
  EXPECT_EQ(prefetcher.Next(&Never)->sequences.size(), 4);
  EXPECT_EQ(prefetcher.Next(&Never)->sequences.size(), 2);
}

TEST_F(BatchPrefetcherTest, AStopEndsTheWaitAndTheSourceIsCancelledAtTheEnd) {
  BatchPrefetcher prefetcher(config_, std::make_unique<StuckSource>(), 4, at::kCPU);
  int polls = 0;
  EXPECT_TRUE(absl::IsCancelled(prefetcher.Next([&] { return ++polls == 2; }).status()));
}

}  // namespace
}  // namespace lorsa::trainer

#include "trainer/worker/remote_source.h"

#include <gtest/gtest.h>

#include "trainer/worker/testing/fake_server.h"

namespace lorsa::worker {
namespace {

class RemoteSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string endpoint = testing::TempDir() + "/endpoint_" +
                                 testing::UnitTest::GetInstance()->current_test_info()->name();
    server_ = std::make_unique<FakeServer>(endpoint, record_, SessionScript{});
    v1::WorkerBootstrap bootstrap;
    bootstrap.set_endpoint_file(endpoint);
    channel_ = std::make_unique<ServerChannel>(fs_, bootstrap);
  }

  std::unique_ptr<RemoteSource> Open(int64_t cursor, int64_t end = 0,
                                     int64_t max_buffered_bytes = 1 << 20) {
    RemoteSource::Options options{.end = end,
                                  .max_buffered_bytes = max_buffered_bytes,
                                  .give_up = [this] { return give_up_.load(); },
                                  .crowded_out = [this](bool is) { crowded_out_.push_back(is); }};
    options.request.set_cursor(cursor);
    return std::make_unique<RemoteSource>(*channel_, std::move(options));
  }

  // The next `n` sequences must be those from number `first` on.
  static void ExpectSequences(RemoteSource& source, int64_t first, int64_t n) {
    store::Sequence sequence;
    for (int64_t i = first; i < first + n; ++i) {
      ASSERT_TRUE(source.Next(sequence).ok());
      ASSERT_EQ(sequence.index, i);
      ASSERT_EQ(sequence.mhsa_input, std::string(4, static_cast<char>(i)));
      ASSERT_EQ(sequence.mhsa_output, std::string(4, static_cast<char>(i)));
      ASSERT_EQ(sequence.tokens, std::string(4, static_cast<char>(i)));
      ASSERT_EQ(sequence.mask, "\1");
    }
  }

  PosixFileSystem fs_;
  SessionRecord record_;
  std::atomic<bool> give_up_ = false;
  std::vector<bool> crowded_out_;  // of a source's thread; read when the source is gone
  std::unique_ptr<FakeServer> server_;
  std::unique_ptr<ServerChannel> channel_;
};

TEST_F(RemoteSourceTest, StartsAtTheCursor) { ExpectSequences(*Open(17), 17, 50); }

TEST_F(RemoteSourceTest, GoesOnWhereABrokenConnectionLeftOff) {
  server_->activations.break_every = 3;
  ExpectSequences(*Open(5), 5, 24);
}

TEST_F(RemoteSourceTest, ATinyBufferStillDelivers) { ExpectSequences(*Open(0, 0, 1), 0, 40); }

TEST_F(RemoteSourceTest, SaysThatTheServerHasNoRoomUntilItHas) {
  server_->activations.refusals = 3;
  ExpectSequences(*Open(0), 0, 10);
  EXPECT_EQ(crowded_out_, (std::vector<bool>{true, false}));
}

TEST_F(RemoteSourceTest, EndsAfterTheLastHeldOutSequence) {
  server_->activations.held_out = 7;
  const auto source = Open(0, 7);
  ExpectSequences(*source, 0, 7);
  store::Sequence sequence;
  EXPECT_TRUE(absl::IsOutOfRange(source->Next(sequence)));
  EXPECT_TRUE(absl::IsOutOfRange(source->Next(sequence)));
}

TEST_F(RemoteSourceTest, DamageComesAfterTheSequencesBeforeIt) {
  server_->activations.fail_at = 6;
  const auto source = Open(0);
  ExpectSequences(*source, 0, 6);
  store::Sequence sequence;
  EXPECT_TRUE(absl::IsDataLoss(source->Next(sequence)));
}

TEST_F(RemoteSourceTest, AWrongCursorIsAnErrorNotWrongData) {
  server_->activations.skip = 1;
  store::Sequence sequence;
  EXPECT_TRUE(absl::IsDataLoss(Open(0)->Next(sequence)));
}

TEST_F(RemoteSourceTest, GivesUpWhenAskedToWhileTheServerIsAway) {
  server_->activations.break_every = 1;
  const auto source = Open(0);
  give_up_ = true;
  store::Sequence sequence;
  absl::Status status;
  while (status.ok()) status = source->Next(sequence);
  EXPECT_TRUE(absl::IsCancelled(status));
}

TEST_F(RemoteSourceTest, ClosingAnUnreadSourceDoesNotHang) { Open(0, 0, 1).reset(); }

}  // namespace
}  // namespace lorsa::worker

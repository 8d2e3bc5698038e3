#include "server/services/sequence_messages.h"

#include <gmock/gmock.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "activation_store/test_sets.h"
#include "base/status_macros.h"
#include "lorsa/v1/activation_service.pb.h"

namespace lorsa::server {
namespace {

using v1::StreamSequencesResponse;

std::string Bytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const auto& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// What the generated class makes of the same sequences.
StreamSequencesResponse Expected(int64_t cursor, const std::vector<SharedSequence>& sequences) {
  StreamSequencesResponse message;
  message.set_cursor(cursor);
  for (const auto& sequence : sequences) {
    message.add_indices(sequence->index);
    message.mutable_mhsa_input()->append(sequence->mhsa_input);
    message.mutable_mhsa_output()->append(sequence->mhsa_output);
    message.mutable_tokens()->append(sequence->tokens);
    message.mutable_mask()->append(sequence->mask);
  }
  return message;
}

std::vector<SharedSequence> Sequences(const store::Manifest& set, int count) {
  std::vector<SharedSequence> sequences;
  for (int i = 0; i < count; ++i) {
    // Indices whose varints have one to five bytes.
    auto sequence = std::make_shared<store::Sequence>(store::TestSequence(set, i));
    sequence->index = int64_t{1} << (8 * i);
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

TEST(SequencesMessage, HasTheBytesThatTheGeneratedClassWrites) {
  const store::Manifest set = store::TestDescription(store::ElementType::kBFloat16, 7, 48);
  for (const int64_t cursor : {int64_t{0}, int64_t{1}, int64_t{300}, int64_t{1} << 40}) {
    for (int count = 1; count <= 5; ++count) {
      const auto sequences = Sequences(set, count);
      EXPECT_EQ(Bytes(SequencesMessage(cursor, sequences)),
                Expected(cursor, sequences).SerializeAsString());
    }
  }
}

TEST(SequencesMessage, SharesTheMemoryOfTheSequences) {
  const store::Manifest set = store::TestDescription(store::ElementType::kFloat32, 4, 64);
  auto sequence = std::make_shared<const store::Sequence>(store::TestSequence(set, 0));
  std::weak_ptr<const store::Sequence> alive = sequence;
  const auto* input = reinterpret_cast<const uint8_t*>(sequence->mhsa_input.data());
  {
    const grpc::ByteBuffer message = SequencesMessage(0, {std::move(sequence)});
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(message.Dump(&slices).ok());
    std::vector<const uint8_t*> places;
    for (const auto& slice : slices) places.push_back(slice.begin());
    EXPECT_THAT(places, testing::Contains(input)) << "mhsa_input was copied";
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired()) << "the message did not let go of its sequence";
}

TEST(SequencePool, ReadsIntoBuffersThatCameBack) {
  auto pool = std::make_shared<SequencePool>(2);
  std::set<const store::Sequence*> first;
  {
    const auto a = pool->Take(), b = pool->Take(), c = pool->Take();
    first = {a.get(), b.get(), c.get()};
    EXPECT_EQ(first.size(), 3u);
    a->mhsa_input = "large";
  }
  EXPECT_EQ(first.count(pool->Take().get()), 1u);
  auto outliving = pool->Take();
  pool.reset();
  outliving.reset();  // the pool lives as long as a buffer of it
}

// A stream of `end` sequences of the test set; ends with `status`.
class FakeStream final : public store::SequenceStream {
 public:
  FakeStream(store::Manifest set, int64_t end, absl::Status status)
      : set_(std::move(set)), end_(end), status_(std::move(status)) {}
  // Each sequence is there only when it is asked for again.
  absl::StatusOr<bool> TryNext(store::Sequence& out) override {
    asked_ = !asked_;
    if (asked_) return false;
    LORSA_RETURN_IF_ERROR(Next(out));
    return true;
  }
  absl::Status Next(store::Sequence& out) override {
    if (cursor_ == end_) return status_;
    out = store::TestSequence(set_, cursor_++);
    return absl::OkStatus();
  }
  int64_t cursor() const override { return cursor_; }
  void Cancel() override {}

 private:
  const store::Manifest set_;
  const int64_t end_;
  const absl::Status status_;
  int64_t cursor_ = 0;
  bool asked_ = false;
};

// Sequences per message of a source over `sequences`, and the status it ended with.
std::vector<int> MessageSizes(const store::Manifest& set, int64_t sequences, absl::Status end,
                              absl::Status& outcome) {
  SequenceMessageSource source(set, std::make_unique<FakeStream>(set, sequences, end));
  std::vector<int> sizes;
  grpc::ByteBuffer message;
  int64_t cursor = 0;
  while (true) {
    const absl::StatusOr<Pulled> pulled = source.Next(message);
    outcome = pulled.status();
    if (!pulled.ok() || *pulled == Pulled::kEnd) return sizes;
    if (*pulled == Pulled::kNothing) continue;
    StreamSequencesResponse parsed;
    EXPECT_TRUE(parsed.ParseFromString(Bytes(message)));
    EXPECT_EQ(parsed.cursor(), cursor);
    sizes.push_back(parsed.indices_size());
    cursor += parsed.indices_size();
  }
}

TEST(SequenceMessageSource, FillsMessagesUpToOneMebibyte) {
  // 2·256·512·2 + 256·5 bytes a sequence: one fits in 1 MiB, two do not.
  const auto large = store::TestDescription(store::ElementType::kBFloat16, 256, 512);
  // 2·16·128·2 + 16·5 = 8,272 bytes: 126 fit.
  const auto small = store::TestDescription(store::ElementType::kBFloat16, 16, 128);
  // 2 MiB and more: one all the same.
  const auto huge = store::TestDescription(store::ElementType::kFloat32, 512, 512);
  absl::Status outcome;
  EXPECT_THAT(MessageSizes(large, 3, absl::OutOfRangeError(""), outcome),
              testing::ElementsAre(1, 1, 1));
  EXPECT_THAT(MessageSizes(small, 300, absl::OutOfRangeError(""), outcome),
              testing::ElementsAre(126, 126, 48));
  EXPECT_THAT(MessageSizes(huge, 2, absl::OutOfRangeError(""), outcome),
              testing::ElementsAre(1, 1));
  EXPECT_TRUE(outcome.ok());
  EXPECT_THAT(MessageSizes(small, 0, absl::OutOfRangeError(""), outcome), testing::IsEmpty());
}

TEST(SequenceMessageSource, SendsWhatWasReadBeforeAnError) {
  const auto small = store::TestDescription(store::ElementType::kBFloat16, 16, 128);
  absl::Status outcome;
  EXPECT_THAT(MessageSizes(small, 130, absl::DataLossError("shard-00000.h5"), outcome),
              testing::ElementsAre(126, 4));
  EXPECT_EQ(outcome, absl::DataLossError("shard-00000.h5"));
}

}  // namespace
}  // namespace lorsa::server

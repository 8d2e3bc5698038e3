#include "activation_store/sequence_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lorsa::store {
namespace {

using testing::ElementsAre;

std::vector<int64_t> Take(int64_t n, uint64_t seed, int64_t cursor, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(SequenceOrder(n, seed).At(cursor + i));
  return out;
}

// The vectors of docs/activation_format.md.
TEST(SequenceOrderTest, GivesTheDocumentedVectors) {
  EXPECT_THAT(Take(10, 0, 0, 10), ElementsAre(1, 0, 9, 3, 5, 6, 2, 8, 7, 4));
  EXPECT_THAT(Take(10, 0, 10, 10), ElementsAre(0, 3, 9, 5, 8, 4, 2, 7, 1, 6));
  EXPECT_THAT(Take(1000, 42, 0, 10), ElementsAre(434, 418, 240, 990, 300, 679, 853, 473, 708, 110));
  EXPECT_THAT(Take(1000, 42, 7000, 10),
              ElementsAre(780, 455, 463, 424, 783, 858, 684, 399, 308, 487));
  EXPECT_THAT(Take(123456789012, ~uint64_t{0}, 0, 4),
              ElementsAre(27568594029, 82225457966, 8913181549, 119610498672));
  EXPECT_THAT(Take(123456789012, ~uint64_t{0}, 123456789012, 4),
              ElementsAre(24507701203, 10735583180, 20265891705, 91132049655));
  EXPECT_THAT(Take(1, 5, 0, 3), ElementsAre(0, 0, 0));
}

TEST(SequenceOrderTest, EveryEpochVisitsEverySequenceOnce) {
  for (int64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 257, 1000, 4097}) {
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<bool> seen(static_cast<size_t>(n));
      for (int64_t index : Take(n, 7, epoch * n, n)) {
        ASSERT_GE(index, 0);
        ASSERT_LT(index, n);
        ASSERT_FALSE(seen[static_cast<size_t>(index)]) << n << " visits " << index << " twice";
        seen[static_cast<size_t>(index)] = true;
      }
    }
  }
}

TEST(SequenceOrderTest, SeedsAndEpochsGiveOtherOrders) {
  const auto first = Take(500, 1, 0, 500);
  EXPECT_NE(first, Take(500, 2, 0, 500));
  EXPECT_NE(first, Take(500, 1, 500, 500));
  // Epoch 1 of one seed must not be epoch 0 of the next.
  EXPECT_NE(Take(500, 1, 500, 500), Take(500, 2, 0, 500));
}

TEST(SequenceOrderTest, AnEpochIsNotNearTheStoredOrder) {
  int64_t rising = 0;
  const auto order = Take(4096, 3, 0, 4096);
  for (size_t i = 1; i < order.size(); ++i) rising += order[i] > order[i - 1];
  EXPECT_NEAR(static_cast<double>(rising), 2048, 4 * 18.5);  // 4 standard deviations: sqrt(n/12)
}

}  // namespace
}  // namespace lorsa::store

// Exact selection against sorting, on scores with many ties.
#include "trainer/lorsa/fast_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace lorsa::trainer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Case {
  int64_t n_ov_heads;
  int64_t top_k;
  Selection selection;
  bool only_some;
};

class SelectorTest : public testing::Test {
 protected:
  // Selects for each row of `z` in turn and compares with a stable sort.
  void Check(const Case& c, const std::vector<std::vector<float>>& rows) {
    const LorsaConfig config{
        .n_ov_heads = c.n_ov_heads, .top_k = c.top_k, .selection = c.selection};
    std::vector<float> norms(c.n_ov_heads);
    std::vector<int32_t> some, keys(c.n_ov_heads + 16), heads = keys, ranked = keys;
    for (int64_t i = 0; i < c.n_ov_heads; ++i) {
      norms[i] = i % 3 == 0 ? 2.0f : 1.0f;
      if (i % 4 == 1) some.push_back(i);
    }
    Selector selector(config, kernels::PlainLoopsFor(kernels::BestLevel()), norms.data(), c.top_k,
                      c.only_some ? &some : nullptr, {keys.data(), heads.data(), ranked.data()});
    for (const std::vector<float>& z : rows) {
      std::vector<int32_t> kept(c.top_k);
      kept.resize(selector.Select(z.data(), kept.data()));
      EXPECT_EQ(kept, Sorted(c, z, norms, some)) << c.n_ov_heads << " " << c.top_k;
    }
  }

 private:
  static std::vector<int32_t> Sorted(const Case& c, const std::vector<float>& z,
                                     const std::vector<float>& norms,
                                     const std::vector<int32_t>& some) {
    const auto score = [&](int32_t i) {
      return (c.selection == Selection::kSigned ? std::abs(z[i]) : z[i]) * norms[i];
    };
    std::vector<int32_t> order;
    for (int32_t i = 0; i < c.n_ov_heads; ++i) {
      if (c.only_some && !std::binary_search(some.begin(), some.end(), i)) continue;
      const bool may_win = c.only_some || c.selection == Selection::kSigned || !(score(i) <= 0);
      if (may_win) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (std::isnan(score(a)) || std::isnan(score(b))) {
        return std::isnan(score(a)) && !std::isnan(score(b));
      }
      return score(a) > score(b);
    });
    order.resize(std::min<size_t>(order.size(), c.top_k));
    std::sort(order.begin(), order.end());
    return order;
  }
};

TEST_F(SelectorTest, AgreesWithSortingAndGivesTiesToTheLowerHead) {
  std::mt19937 random(3);
  for (const int64_t n : {1, 5, 16, 40, 500}) {
    for (const int64_t k : {int64_t{1}, (n + 7) / 8, n}) {
      for (const Selection selection : {Selection::kRelu, Selection::kSigned}) {
        for (const bool only_some : {false, true}) {
          std::vector<std::vector<float>> rows(12, std::vector<float>(n));
          for (size_t r = 0; r < rows.size(); ++r) {
            // Few distinct values, whose size jumps up and down from row to row.
            std::uniform_int_distribution<int> level(-4, 4);
            for (float& z : rows[r]) z = level(random) * (r % 3 == 0 ? 100.0f : 1.0f);
          }
          Check({n, k, selection, only_some}, rows);
        }
      }
    }
  }
}

TEST_F(SelectorTest, FewerThanKWhenFewerArePositive) {
  Check({4, 3, Selection::kRelu, false}, {{-1, 2, 0, -3}, {-1, -2, 0, -3}, {1, 2, 3, 4}});
}

TEST_F(SelectorTest, NanIsKept) {
  for (const Selection selection : {Selection::kRelu, Selection::kSigned}) {
    Check({6, 2, selection, false}, {{9, 8, 7, kNan, 5, 4}, {9, 8, 7, -kNan, 5, 4}});
    Check({6, 1, selection, true}, {{9, 8, 7, 3, 5, -kNan}});
  }
}

}  // namespace
}  // namespace lorsa::trainer

#include "trainer/lorsa/fast_selection.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace lorsa::trainer {
namespace {

using kernels::FromOrderKey;
using kernels::OrderKey;

// The key below every score that may win: positive ones, those of either sign as |z|, or all.
int32_t LowestKey(const LorsaConfig& config, bool all) {
  if (all || config.selection == Selection::kSigned) return std::numeric_limits<int32_t>::min();
  return OrderKey(0.0f);
}

// A little below a threshold: neighbouring tokens have similar ones.
int32_t GuessBelow(int32_t threshold) {
  const float value = FromOrderKey(threshold);
  return std::isfinite(value) ? OrderKey(value - 0.15f * std::abs(value)) : threshold;
}

}  // namespace

Selector::Selector(const LorsaConfig& config, const kernels::PlainLoops& loops, const float* norms,
                   int64_t top_k, const std::vector<int32_t>* only, SelectionScratch scratch)
    : loops_(loops),
      norms_(config.selection == Selection::kSigned || config.select_by_decoder_norm ? norms
                                                                                     : nullptr),
      absolute_(config.selection == Selection::kSigned),
      n_ov_heads_(config.n_ov_heads),
      top_k_(top_k),
      only_(only),
      lowest_(LowestKey(config, only != nullptr)),
      guess_(lowest_),
      scratch_(scratch) {}

int64_t Selector::Select(const float* z, int32_t* heads) {
  int64_t count = Collect(z, std::max(guess_, lowest_));
  if (count < top_k_ && guess_ > lowest_) count = Collect(z, lowest_);
  if (count <= top_k_) {
    std::copy_n(scratch_.heads, count, heads);
    guess_ = lowest_;
    return count;
  }
  std::copy_n(scratch_.keys, count, scratch_.ranked);
  int32_t* last = scratch_.ranked + top_k_ - 1;
  std::nth_element(scratch_.ranked, last, scratch_.ranked + count, std::greater<>());
  const int32_t threshold = *last;
  // Those equal to the threshold fill what is left, lower numbers first.
  int64_t equal_left =
      top_k_ - std::count_if(scratch_.ranked, last, [&](int32_t key) { return key > threshold; });
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    const bool above = scratch_.keys[i] > threshold;
    const bool tied = scratch_.keys[i] == threshold && equal_left > 0;
    heads[kept] = scratch_.heads[i];
    kept += above || tied;
    equal_left -= tied;
    if (kept == top_k_) break;
  }
  guess_ = GuessBelow(threshold);
  return kept;
}

int64_t Selector::Collect(const float* z, int32_t above) {
  if (only_ != nullptr) return CollectAmong(z, above);
  return loops_.collect_above(z, norms_, absolute_, n_ov_heads_, above, scratch_.keys,
                              scratch_.heads);
}

int64_t Selector::CollectAmong(const float* z, int32_t above) {
  int64_t count = 0;
  for (const int32_t head : *only_) {
    const float size = absolute_ ? std::abs(z[head]) : z[head];
    const int32_t key = OrderKey(norms_ == nullptr ? size : size * norms_[head]);
    scratch_.keys[count] = key;
    scratch_.heads[count] = head;
    count += key > above;
  }
  return count;
}

}  // namespace lorsa::trainer

#include "activation_store/sequence_order.h"

#include <algorithm>
#include <bit>

namespace lorsa::store {
namespace {

constexpr int kRounds = 8;
constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;  // SplitMix64's increment

// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators", 2014).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// A permutation of [0, 2^(2·half_bits)): a balanced Feistel network.
class FeistelNetwork {
 public:
  FeistelNetwork(int half_bits, uint64_t seed, uint64_t epoch)
      : half_bits_(half_bits), mask_((uint64_t{1} << half_bits) - 1) {
    const uint64_t state = Mix(Mix(seed) + epoch);
    for (int round = 0; round < kRounds; ++round) {
      keys_[round] = Mix(state + (round + 1) * kGamma);
    }
  }

  uint64_t Permute(uint64_t x) const {
    uint64_t left = x >> half_bits_, right = x & mask_;
    for (uint64_t key : keys_) {
      const uint64_t next = left ^ (Mix(right ^ key) & mask_);
      left = right;
      right = next;
    }
    return left << half_bits_ | right;
  }

 private:
  int half_bits_;
  uint64_t mask_;
  uint64_t keys_[kRounds];
};

}  // namespace

int64_t SequenceOrder::At(int64_t cursor) const {
  const uint64_t n = static_cast<uint64_t>(sequences_);
  const uint64_t epoch = static_cast<uint64_t>(cursor) / n;
  const int half_bits = std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2);
  const FeistelNetwork network(half_bits, seed_, epoch);
  // Cycle walking: the domain is less than 4n (or 4), so few steps are needed, and a walk from
  // inside [0, n) always returns to it.
  uint64_t x = static_cast<uint64_t>(cursor) % n;
  do {
    x = network.Permute(x);
  } while (x >= n);
  return static_cast<int64_t>(x);
}

}  // namespace lorsa::store

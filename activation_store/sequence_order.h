// The order in which training visits the sequences of a set: a keyed permutation per epoch
// (algorithm and test vectors in docs/activation_format.md).
#ifndef LORSA_ACTIVATION_STORE_SEQUENCE_ORDER_H_
#define LORSA_ACTIVATION_STORE_SEQUENCE_ORDER_H_

#include <cstdint>

namespace lorsa::store {

// A pure function of (sequences, seed, cursor). Thread-safe.
class SequenceOrder {
 public:
  // `sequences` ≥ 1: those that may enter training.
  SequenceOrder(int64_t sequences, uint64_t seed) : sequences_(sequences), seed_(seed) {}

  // Index in the set of sequence number `cursor` ≥ 0 of the order. Epoch e covers the cursors
  // [e·sequences, (e+1)·sequences) and visits each sequence once.
  int64_t At(int64_t cursor) const;

  int64_t sequences() const { return sequences_; }

 private:
  int64_t sequences_;
  uint64_t seed_;
};

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_SEQUENCE_ORDER_H_

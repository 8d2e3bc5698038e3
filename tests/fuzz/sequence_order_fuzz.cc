// activation_store/sequence_order: any cursor of a stream finds a sequence of the set, and another
// one than its neighbour of the same epoch.
#include <fuzzer/FuzzedDataProvider.h>

#include "activation_store/manifest.h"
#include "activation_store/sequence_order.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kMaxCursor = int64_t{1} << 62;
  FuzzedDataProvider input(data, size);
  const auto sequences =
      input.ConsumeIntegralInRange<int64_t>(1, store::kMaxShards * store::kMaxShardSequences);
  const auto cursor = input.ConsumeIntegralInRange<int64_t>(0, kMaxCursor);
  const store::SequenceOrder order(sequences, input.ConsumeIntegral<uint64_t>());
  const int64_t index = order.At(cursor);
  FUZZ_CHECK(index >= 0 && index < sequences && order.At(cursor) == index);
  if ((cursor + 1) % sequences != 0) FUZZ_CHECK(order.At(cursor + 1) != index);
  return 0;
}

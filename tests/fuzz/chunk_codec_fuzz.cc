// activation_store/chunk_codec: decodes to the size that is asked for or says why not.
#include <fuzzer/FuzzedDataProvider.h>

#include <vector>

#include "activation_store/chunk_codec.h"
#include "tests/fuzz/fuzz.h"

using namespace lorsa;  // NOLINT

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kMaxFilters = 8;
  constexpr uint64_t kMaxDecodedSize = 1 << 16;
  constexpr uint64_t kElementSizes[] = {1, 2, 4, 8};
  FuzzedDataProvider input(data, size);
  std::vector<store::Filter> filters(input.ConsumeIntegralInRange<size_t>(0, kMaxFilters));
  for (store::Filter& filter : filters) {
    filter = input.PickValueInArray(
        {store::Filter::kDeflate, store::Filter::kShuffle, store::Filter::kFletcher32});
  }
  const auto skipped = input.ConsumeIntegral<uint32_t>();
  const uint64_t element_size = input.PickValueInArray(kElementSizes);
  const auto decoded_size = input.ConsumeIntegralInRange<uint64_t>(1, kMaxDecodedSize);
  std::string bytes = input.ConsumeRemainingBytesAsString();
  const absl::Status status =
      store::DecodeChunk(filters, skipped, element_size, decoded_size, bytes);
  FUZZ_CHECK(status.ok() ? bytes.size() == decoded_size : absl::IsDataLoss(status));
  return 0;
}

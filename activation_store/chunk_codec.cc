#include "activation_store/chunk_codec.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/status_macros.h"

namespace lorsa::store {
namespace {

constexpr uint64_t kFletcherBytes = 4;

absl::Status Inflate(uint64_t max_size, std::string& bytes) {
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) return absl::ResourceExhaustedError("zlib could not start");
  std::string out(max_size, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());  // Chunks are far below 4 GiB.
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = inflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  if (result != Z_STREAM_END) {
    return absl::DataLossError("a deflated chunk is damaged or longer than its dataset says");
  }
  bytes = std::move(out);
  return absl::OkStatus();
}

// The filter stored byte 0 of all elements, then byte 1 of all, …; what is left over stands last.
void Unshuffle(uint64_t element_size, std::string& bytes) {
  const uint64_t elements = bytes.size() / element_size;
  std::string out = bytes;
  for (uint64_t byte = 0; byte < element_size; ++byte) {
    const char* from = bytes.data() + byte * elements;
    for (uint64_t i = 0; i < elements; ++i) out[i * element_size + byte] = from[i];
  }
  bytes = std::move(out);
}

uint32_t Fold(uint32_t sum) { return (sum & 0xffff) + (sum >> 16); }

// Fletcher's checksum over big-endian 16-bit words, as HDF5 computes it.
uint32_t Fletcher32(const std::string& data, uint64_t size) {
  constexpr uint64_t kWordsPerFold = 360;  // as many as cannot overflow 32 bits
  const auto byte = [&](uint64_t i) {
    return static_cast<uint32_t>(static_cast<uint8_t>(data[i]));
  };
  uint32_t sum1 = 0, sum2 = 0;
  const uint64_t words = size / 2;
  for (uint64_t word = 0; word < words;) {
    const uint64_t end = std::min(words, word + kWordsPerFold);
    for (; word < end; ++word) {
      sum1 += byte(2 * word) << 8 | byte(2 * word + 1);
      sum2 += sum1;
    }
    sum1 = Fold(sum1);
    sum2 = Fold(sum2);
  }
  if (size % 2 != 0) {
    sum1 += byte(size - 1) << 8;
    sum2 += sum1;
    sum1 = Fold(sum1);
    sum2 = Fold(sum2);
  }
  return Fold(sum2) << 16 | Fold(sum1);
}

absl::Status CheckFletcher32(std::string& bytes) {
  if (bytes.size() < kFletcherBytes) return absl::DataLossError("a chunk has lost its checksum");
  const uint64_t size = bytes.size() - kFletcherBytes;
  uint32_t stored;  // little-endian, as this machine is
  std::memcpy(&stored, bytes.data() + size, kFletcherBytes);
  if (stored != Fletcher32(bytes, size)) {
    return absl::DataLossError("a chunk does not match its Fletcher-32 checksum");
  }
  bytes.resize(size);
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodeChunk(absl::Span<const Filter> filters, uint32_t skipped, uint64_t element_size,
                         uint64_t decoded_size, std::string& bytes) {
  // Filters applied before deflate may each have added a checksum.
  const uint64_t max_size = decoded_size + kFletcherBytes * filters.size();
  for (size_t i = filters.size(); i-- > 0;) {
    if (skipped >> i & 1) continue;
    switch (filters[i]) {
      case Filter::kDeflate:
        LORSA_RETURN_IF_ERROR(Inflate(max_size, bytes));
        break;
      case Filter::kShuffle:
        Unshuffle(element_size, bytes);
        break;
      case Filter::kFletcher32:
        LORSA_RETURN_IF_ERROR(CheckFletcher32(bytes));
        break;
    }
  }
  if (bytes.size() != decoded_size) {
    return absl::DataLossError("a chunk does not decode to the size that its dataset says");
  }
  return absl::OkStatus();
}

}  // namespace lorsa::store

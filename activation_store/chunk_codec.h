// Undoes HDF5's standard filters on one chunk (HDF5 File Format Specification 3.0, IV.A.2.l, and
// the filters' sources H5Zdeflate.c, H5Zshuffle.c, H5Zfletcher32.c). HDF5's own deflate filter
// grows its output without a bound; this one never writes more than the chunk holds.
#ifndef LORSA_ACTIVATION_STORE_CHUNK_CODEC_H_
#define LORSA_ACTIVATION_STORE_CHUNK_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace lorsa::store {

enum class Filter { kDeflate, kShuffle, kFletcher32 };

// Replaces `bytes`, a chunk as it stands in the file, by its `decoded_size` decoded bytes.
// `element_size` is the dataset's; bit i of `skipped` set = filters[i] was not applied.
// DATA_LOSS saying why if the chunk does not decode to that size or a checksum differs.
absl::Status DecodeChunk(absl::Span<const Filter> filters, uint32_t skipped, uint64_t element_size,
                         uint64_t decoded_size, std::string& bytes);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_CHUNK_CODEC_H_

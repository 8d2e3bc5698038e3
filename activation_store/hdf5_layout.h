// Where the bytes of an HDF5 file's datasets stand, so that they can be read without the library:
// its lock then never stands between two readers, and no file makes it allocate.
#ifndef LORSA_ACTIVATION_STORE_HDF5_LAYOUT_H_
#define LORSA_ACTIVATION_STORE_HDF5_LAYOUT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "activation_store/chunk_codec.h"
#include "base/file_system.h"

namespace lorsa::store {

// The little-endian element types of the format.
enum class DataType { kBFloat16, kFloat16, kFloat32, kInt32, kUInt8, kUInt64 };

uint64_t DataTypeSize(DataType type);           // bytes
absl::string_view DataTypeName(DataType type);  // "bf16", …, "int32", "uint8", "uint64"

inline constexpr uint64_t kMaxRank = 3;
inline constexpr uint64_t kMaxChunks = 16384;         // per dataset
inline constexpr uint64_t kMaxChunkBytes = 1u << 30;  // decoded
// A row is read by decoding all chunks that it crosses: at most so many times its own bytes, or
// kFreeDecodedBytes.
inline constexpr uint64_t kMaxDecodedRatio = 256;
inline constexpr uint64_t kFreeDecodedBytes = 1 << 20;

struct StoredChunk {
  uint64_t offset = 0;           // of its first byte in the file
  uint64_t bytes = 0;            // in the file
  uint32_t skipped_filters = 0;  // bit i: filter i was not applied to this chunk
};

// One dataset. A contiguous one is a single chunk without filters. Every chunk is allocated and
// lies inside the file, and no two share a byte: what a dataset decodes to is bounded by the file.
struct DatasetLayout {
  DataType type = DataType::kUInt8;
  std::vector<uint64_t> dims;        // 1 to kMaxRank, each > 0; their product times size < 2^63
  std::vector<uint64_t> chunk_dims;  // as many
  std::vector<Filter> filters;       // in the order in which they were applied
  std::vector<StoredChunk> chunks;   // row-major over the grid of chunks
};

struct Hdf5Request {
  std::vector<std::string> datasets;  // names in the root group, all required
  std::string string_attribute;       // of the root group; may be absent from the file
  uint64_t max_root_entries = 64;
};

struct Hdf5Contents {
  std::unique_ptr<ReadableFile> file;
  std::map<std::string, DatasetLayout> datasets;
  std::optional<std::string> string_attribute;
};

// Opens `path` and finds the datasets. DATA_LOSS naming the file and the reason for anything that
// the format refuses: links, external or virtual storage, user blocks, unknown types or filters,
// bytes never written or beyond the end. Errors of the file system otherwise. Thread-safe; the
// part inside HDF5 runs one call at a time.
absl::StatusOr<Hdf5Contents> ReadHdf5Layout(FileSystem& fs, const std::string& path,
                                            const Hdf5Request& request);

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_HDF5_LAYOUT_H_

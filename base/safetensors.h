// The safetensors file format (https://github.com/huggingface/safetensors, "Format"): an 8-byte
// little-endian header length, a JSON header, and the tensors' bytes back to back. The only form
// in which this project reads or writes weights. Knows nothing of torch.
#ifndef LORSA_BASE_SAFETENSORS_H_
#define LORSA_BASE_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/file_system.h"

namespace lorsa {

// One tensor of a file: its format dtype ("F32", "BF16", "I64", …), shape and place.
struct SafetensorsEntry {
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // of its first byte, from the start of the file
  uint64_t bytes = 0;
};

// A file opened for reading. The header is checked whole before anything is read: known dtypes,
// products without overflow, offsets that tile the data exactly (no gap, no overlap, no byte
// beyond the end). Thread-safe after Open.
class SafetensorsReader {
 public:
  // DATA_LOSS, naming the file and what is wrong in it, if the header does not hold.
  static absl::StatusOr<SafetensorsReader> Open(FileSystem& fs, const std::string& path);

  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The entry called `name`, or NOT_FOUND naming the file and what it does hold.
  absl::StatusOr<SafetensorsEntry> Find(const std::string& name) const;
  // Reads the bytes of `entry` into `out`, whose size must be entry.bytes.
  absl::Status Read(const SafetensorsEntry& entry, absl::Span<char> out) const;

 private:
  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  std::map<std::string, SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

// One tensor to write; `data` is little-endian and row-major and outlives the call.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  absl::Span<const char> data;
};

// Writes `path` and fsyncs it; the caller renames (checkpoints are renamed as whole folders).
// Tensors stand in the order of their names; the same input gives the same bytes.
// INVALID_ARGUMENT if dtype, shape and size of a tensor disagree or a name comes twice.
absl::Status WriteSafetensors(FileSystem& fs, const std::string& path,
                              std::vector<SafetensorsTensor> tensors,
                              const std::map<std::string, std::string>& metadata = {});

// Bytes of one element of a format dtype, or INVALID_ARGUMENT for one that the format lacks.
absl::StatusOr<uint64_t> SafetensorsElementSize(absl::string_view dtype);

}  // namespace lorsa

#endif  // LORSA_BASE_SAFETENSORS_H_

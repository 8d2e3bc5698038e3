// One shard, shard-NNNNN.h5, opened for reading.
#ifndef LORSA_ACTIVATION_STORE_SHARD_READER_H_
#define LORSA_ACTIVATION_STORE_SHARD_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "activation_store/activation_set.h"
#include "activation_store/dataset_reader.h"
#include "activation_store/hdf5_layout.h"
#include "activation_store/manifest.h"
#include "base/file_system.h"

namespace lorsa::store {

// Root attribute of the first shard that describes the model (ParseDescription).
inline constexpr char kSetAttribute[] = "lorsa_set";

struct ShardShape {
  int64_t sequences = 0;
  int64_t context = 0;
  int64_t d_model = 0;
  ElementType element_type = ElementType::kBFloat16;

  // OK if another shard of this shape may stand in a set of (context, d_model, element_type);
  // DATA_LOSS naming `path` if not.
  absl::Status CheckFits(absl::string_view path, const ShardShape& set) const;
};

DataType DataTypeOf(ElementType type);

// Where everything in a shard stands. Holds no descriptor. Immutable.
class ShardReader {
 public:
  // A shard and its open file; the file may be closed and opened again (FileSystem::OpenForRead)
  // without reading the layout again.
  struct Opened;

  // DATA_LOSS naming the file and the reason if it is not a shard of the format.
  static absl::StatusOr<Opened> Open(FileSystem& fs, const std::string& path);

  const std::string& path() const { return path_; }
  const ShardShape& shape() const { return shape_; }
  const std::optional<std::string>& set_attribute() const { return set_attribute_; }
  uint64_t chunks() const;

  // Fills all of `out` but its index, reusing its memory. `row` < shape().sequences. Any thread.
  absl::Status Read(const ReadableFile& file, int64_t row, Sequence& out) const;

 private:
  ShardReader(std::string path, Hdf5Contents& contents);
  absl::Status CheckLayouts();

  std::string path_;
  std::optional<std::string> set_attribute_;
  DatasetReader input_, output_, tokens_, mask_;
  ShardShape shape_;
};

struct ShardReader::Opened {
  std::unique_ptr<const ShardReader> shard;
  std::unique_ptr<ReadableFile> file;
};

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_SHARD_READER_H_

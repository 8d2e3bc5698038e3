// Reads rows of an HDF5 dataset by offset (pread), without the HDF5 library.
#ifndef LORSA_ACTIVATION_STORE_DATASET_READER_H_
#define LORSA_ACTIVATION_STORE_DATASET_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "activation_store/hdf5_layout.h"
#include "base/file_system.h"

namespace lorsa::store {

// Immutable; any number of threads may read.
class DatasetReader {
 public:
  // `layout` comes from ReadHdf5Layout.
  explicit DatasetReader(DatasetLayout layout);

  const DatasetLayout& layout() const { return layout_; }
  // A row is everything under one index of the first dimension.
  uint64_t rows() const { return rows_; }
  uint64_t row_bytes() const { return row_bytes_; }

  // Fills `out` (row_bytes() long) with the row as the format stores it: little-endian, row-major.
  // `file` is the file of the layout. DATA_LOSS saying why if a chunk does not decode or lies
  // beyond the end; `row` < rows().
  absl::Status ReadRow(const ReadableFile& file, uint64_t row, absl::Span<char> out) const;

 private:
  // Part of one chunk that belongs to a row: `height` lines of `width` bytes, `pitch` bytes apart
  // in the chunk, to be placed at `target` in the row, one line of the row (line_bytes_) apart.
  struct Slab {
    const StoredChunk* chunk;
    uint64_t offset;  // in the decoded chunk
    uint64_t height, width, pitch;
    uint64_t target;
  };

  Slab FindSlab(uint64_t row, uint64_t chunk_y, uint64_t chunk_x) const;
  absl::Status ReadSlab(const ReadableFile& file, const Slab& slab, absl::Span<char> out,
                        std::string& scratch) const;

  DatasetLayout layout_;
  // The dataset seen as [rows, lines, line_bytes], and its chunks likewise.
  uint64_t rows_ = 0, lines_ = 1, line_bytes_ = 0, row_bytes_ = 0;
  uint64_t chunk_rows_ = 0, chunk_lines_ = 1, chunk_line_bytes_ = 0;
  uint64_t grid_y_ = 1, grid_x_ = 1;  // chunks along lines and along a line
};

}  // namespace lorsa::store

#endif  // LORSA_ACTIVATION_STORE_DATASET_READER_H_

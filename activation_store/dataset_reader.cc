#include "activation_store/dataset_reader.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"

namespace lorsa::store {
namespace {

absl::Status ReadStored(const ReadableFile& file, uint64_t offset, absl::Span<char> out) {
  absl::Status status = file.ReadAt(offset, out);
  if (absl::IsOutOfRange(status)) return absl::DataLossError("the file was truncated");
  return status;
}

}  // namespace

DatasetReader::DatasetReader(DatasetLayout layout) : layout_(std::move(layout)) {
  const uint64_t size = DataTypeSize(layout_.type);
  const std::vector<uint64_t>& dims = layout_.dims;
  const std::vector<uint64_t>& chunk = layout_.chunk_dims;
  rows_ = dims[0];
  chunk_rows_ = chunk[0];
  lines_ = dims.size() == 3 ? dims[1] : 1;
  chunk_lines_ = dims.size() == 3 ? chunk[1] : 1;
  line_bytes_ = size * (dims.size() > 1 ? dims.back() : 1);
  chunk_line_bytes_ = size * (dims.size() > 1 ? chunk.back() : 1);
  row_bytes_ = lines_ * line_bytes_;
  grid_y_ = (lines_ - 1) / chunk_lines_ + 1;
  grid_x_ = (line_bytes_ - 1) / chunk_line_bytes_ + 1;
}

absl::Status DatasetReader::ReadRow(const ReadableFile& file, uint64_t row,
                                    absl::Span<char> out) const {
  std::string scratch;
  for (uint64_t y = 0; y < grid_y_; ++y) {
    for (uint64_t x = 0; x < grid_x_; ++x) {
      LORSA_RETURN_IF_ERROR(ReadSlab(file, FindSlab(row, y, x), out, scratch));
    }
  }
  return absl::OkStatus();
}

DatasetReader::Slab DatasetReader::FindSlab(uint64_t row, uint64_t chunk_y,
                                            uint64_t chunk_x) const {
  const uint64_t line = chunk_y * chunk_lines_, column = chunk_x * chunk_line_bytes_;
  return {.chunk = &layout_.chunks[(row / chunk_rows_ * grid_y_ + chunk_y) * grid_x_ + chunk_x],
          .offset = row % chunk_rows_ * chunk_lines_ * chunk_line_bytes_,
          .height = std::min(chunk_lines_, lines_ - line),
          .width = std::min(chunk_line_bytes_, line_bytes_ - column),
          .pitch = chunk_line_bytes_,
          .target = line * line_bytes_ + column};
}

absl::Status DatasetReader::ReadSlab(const ReadableFile& file, const Slab& slab,
                                     absl::Span<char> out, std::string& scratch) const {
  const bool filtered = !layout_.filters.empty();
  const uint64_t slab_bytes = (slab.height - 1) * slab.pitch + slab.width;
  if (!filtered && slab.width == line_bytes_ && (slab.pitch == line_bytes_ || slab.height == 1)) {
    return ReadStored(file, slab.chunk->offset + slab.offset, out.subspan(slab.target, slab_bytes));
  }
  const char* from;
  if (filtered) {
    scratch.resize(slab.chunk->bytes);
    LORSA_RETURN_IF_ERROR(ReadStored(file, slab.chunk->offset, absl::MakeSpan(scratch)));
    const uint64_t decoded = chunk_rows_ * chunk_lines_ * chunk_line_bytes_;
    LORSA_RETURN_IF_ERROR(DecodeChunk(layout_.filters, slab.chunk->skipped_filters,
                                      DataTypeSize(layout_.type), decoded, scratch));
    from = scratch.data() + slab.offset;
  } else {
    scratch.resize(slab_bytes);
    LORSA_RETURN_IF_ERROR(
        ReadStored(file, slab.chunk->offset + slab.offset, absl::MakeSpan(scratch)));
    from = scratch.data();
  }
  for (uint64_t i = 0; i < slab.height; ++i) {
    std::memcpy(out.data() + slab.target + i * line_bytes_, from + i * slab.pitch, slab.width);
  }
  return absl::OkStatus();
}

}  // namespace lorsa::store

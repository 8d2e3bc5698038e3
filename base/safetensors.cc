#include "base/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json_fields.h"
#include "base/status_macros.h"

namespace lorsa {
namespace {

using nlohmann::json;

// Numbers are copied to and from the file as they stand in memory.
static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kPrefixBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 16u << 20;  // The format's own limit is 100 MB.
constexpr size_t kMaxRank = 16;
constexpr int kMaxJsonDepth = 4;

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, " is not a valid safetensors file: ", what,
                                          ". Fetch or write the file again."));
}

// Product of the shape times the element size, or an error on overflow or a negative dimension.
absl::StatusOr<uint64_t> ByteSize(absl::string_view dtype, absl::Span<const int64_t> shape) {
  LORSA_ASSIGN_OR_RETURN(uint64_t bytes, SafetensorsElementSize(dtype));
  for (int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes)) {
      return absl::InvalidArgumentError("a shape is negative or overflows");
    }
  }
  return bytes;
}

absl::StatusOr<SafetensorsEntry> ParseEntry(const json& value, uint64_t data_start) {
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !value["shape"].is_array() || value["shape"].size() > kMaxRank ||
      !value.contains("data_offsets") || !value["data_offsets"].is_array() ||
      value["data_offsets"].size() != 2) {
    return absl::InvalidArgumentError("dtype, shape or data_offsets is missing or malformed");
  }
  SafetensorsEntry entry{.dtype = value["dtype"].get<std::string>()};
  for (const json& dimension : value["shape"]) {
    if (!dimension.is_number_unsigned() ||
        dimension.get<uint64_t>() > std::numeric_limits<int64_t>::max()) {
      return absl::InvalidArgumentError("a dimension is not a whole number in range");
    }
    entry.shape.push_back(dimension.get<int64_t>());
  }
  const json& offsets = value["data_offsets"];
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    return absl::InvalidArgumentError("an offset is not a whole number");
  }
  const uint64_t begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
  LORSA_ASSIGN_OR_RETURN(entry.bytes, ByteSize(entry.dtype, entry.shape));
  if (end < begin || end - begin != entry.bytes) {
    return absl::InvalidArgumentError("its offsets do not span dtype times shape");
  }
  if (__builtin_add_overflow(begin, data_start, &entry.offset)) {
    return absl::InvalidArgumentError("an offset overflows");
  }
  return entry;
}

// The entries must tile [data_start, file_size) exactly.
absl::Status CheckTiling(const std::string& path, uint64_t data_start, uint64_t file_size,
                         const std::map<std::string, SafetensorsEntry>& entries) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // offset, bytes
  for (const auto& [name, entry] : entries) ranges.emplace_back(entry.offset, entry.bytes);
  std::sort(ranges.begin(), ranges.end());
  uint64_t position = data_start;
  for (const auto& [offset, bytes] : ranges) {
    if (offset != position) return Damaged(path, "its tensors overlap or leave a gap");
    if (__builtin_add_overflow(position, bytes, &position) || position > file_size) {
      return Damaged(path, "it ends before its last tensor does");
    }
  }
  if (position != file_size) return Damaged(path, "it has bytes after its last tensor");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> SafetensorsElementSize(absl::string_view dtype) {
  static constexpr std::pair<absl::string_view, uint64_t> kSizes[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
      {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};
  for (const auto& [name, size] : kSizes) {
    if (name == dtype) return size;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown dtype '", dtype.substr(0, 16), "'"));
}

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(FileSystem& fs, const std::string& path) {
  SafetensorsReader reader;
  reader.path_ = path;
  LORSA_ASSIGN_OR_RETURN(reader.file_, fs.OpenForRead(path));
  const uint64_t file_size = reader.file_->size();
  if (file_size < kPrefixBytes) return Damaged(path, "it is shorter than 8 bytes");
  char prefix[kPrefixBytes];
  LORSA_RETURN_IF_ERROR(reader.file_->ReadAt(0, absl::MakeSpan(prefix)));
  uint64_t header_bytes;
  std::memcpy(&header_bytes, prefix, kPrefixBytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > file_size - kPrefixBytes) {
    return Damaged(path, absl::StrCat("its header claims ", header_bytes, " bytes"));
  }
  std::string text(header_bytes, '\0');
  LORSA_RETURN_IF_ERROR(reader.file_->ReadAt(kPrefixBytes, absl::MakeSpan(text)));
  const auto header = ParseJsonObject(text, kMaxJsonDepth);
  if (!header.ok()) {
    return Damaged(path, absl::StrCat("in its header, ", header.status().message()));
  }
  const uint64_t data_start = kPrefixBytes + header_bytes;
  for (const auto& [name, value] : header->items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) return Damaged(path, "its metadata is not an object");
      for (const auto& [key, item] : value.items()) {
        if (!item.is_string()) return Damaged(path, "a metadata value is not a string");
        reader.metadata_[key] = item.get<std::string>();
      }
      continue;
    }
    auto entry = ParseEntry(value, data_start);
    if (!entry.ok()) {
      return Damaged(path, absl::StrCat("tensor '", name, "': ", entry.status().message()));
    }
    reader.entries_[name] = *std::move(entry);
  }
  LORSA_RETURN_IF_ERROR(CheckTiling(path, data_start, file_size, reader.entries_));
  return reader;
}

absl::StatusOr<SafetensorsEntry> SafetensorsReader::Find(const std::string& name) const {
  if (auto it = entries_.find(name); it != entries_.end()) return it->second;
  return absl::NotFoundError(absl::StrCat(
      path_, " has no tensor '", name, "'; it has ",
      absl::StrJoin(entries_, ", ", [](std::string* out, const auto& e) { *out += e.first; })));
}

absl::Status SafetensorsReader::Read(const SafetensorsEntry& entry, absl::Span<char> out) const {
  if (out.size() != entry.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": the buffer has ", out.size(), " bytes, the tensor ", entry.bytes));
  }
  return file_->ReadAt(entry.offset, out);
}

absl::Status WriteSafetensors(FileSystem& fs, const std::string& path,
                              std::vector<SafetensorsTensor> tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    LORSA_ASSIGN_OR_RETURN(const uint64_t bytes, ByteSize(tensor.dtype, tensor.shape));
    if (bytes != tensor.data.size() || header.contains(tensor.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("write ", path, ": tensor '", tensor.name,
                       "' comes twice or its size is not that of its dtype and shape"));
    }
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // So that the tensors are 8-byte aligned.
  char prefix[kPrefixBytes];
  const uint64_t header_bytes = text.size();
  std::memcpy(prefix, &header_bytes, kPrefixBytes);

  LORSA_ASSIGN_OR_RETURN(auto file, fs.Create(path));
  LORSA_RETURN_IF_ERROR(file->Append(absl::string_view(prefix, kPrefixBytes)));
  LORSA_RETURN_IF_ERROR(file->Append(text));
  for (const SafetensorsTensor& tensor : tensors) {
    LORSA_RETURN_IF_ERROR(file->Append(absl::string_view(tensor.data.data(), tensor.data.size())));
  }
  LORSA_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace lorsa
